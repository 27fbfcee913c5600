// SPDX-License-Identifier: GPL-2.0
/*
 * peer_cm - RDMA between two processes that the connection manager connects
 *
 * As the actions serve and remote of samples/verbs, with librdmacm in the place of TCP: the
 * processes find each other by IP addresses on an Ethernet port, and by GIDs (AF_IB) on an
 * InfiniBand port, for which the kernel asks the subnet administration for the path.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <rdma/rdma_cma.h>

#include "actions.h"
#include "number.h"

#define PORT 1
#define FULL_MEMBER 0xffff
/* Seconds to wait for an event: a request without an answer is repeated for some time. */
#define PATIENCE 45
/* Milliseconds for an address, and for a path. */
#define RESOLVE 5000

/* The server's memory, big endian: the private data of its answer. */
struct offer {
	uint64_t addr, length;
	uint32_t rkey, pad;
};

/* Waits for an event, which must be this one. The caller acknowledges it. */
static struct rdma_cm_event *must_get(struct rdma_cm_id *id, enum rdma_cm_event_type want)
{
	struct pollfd channel = { .fd = id->channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	if (poll(&channel, 1, PATIENCE * 1000) != 1)
		errx(1, "no %s in %d s", rdma_event_str(want), PATIENCE);
	if (rdma_get_cm_event(id->channel, &event))
		err(1, "rdma_get_cm_event");
	if (event->event != want)
		errx(1, "%s with status %d, instead of %s", rdma_event_str(event->event),
		     event->status, rdma_event_str(want));
	return event;
}

static void must_see(struct rdma_cm_id *id, enum rdma_cm_event_type want)
{
	rdma_ack_cm_event(must_get(id, want));
}

static struct rdma_cm_id *id_make(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		err(1, "rdma_create_id (is rdma_ucm loaded?)");
	return id;
}

static void id_free(struct rdma_cm_id *id)
{
	struct rdma_event_channel *channel = id->channel;

	if (rdma_destroy_id(id))
		err(1, "rdma_destroy_id");
	rdma_destroy_event_channel(channel);
}

/* Sets @to to the server's address, as the port of the device has it. */
static void server_address(struct options *o, struct sockaddr_storage *to)
{
	struct sockaddr_ib *ib = (struct sockaddr_ib *)to;
	struct addrinfo hints = { .ai_family = AF_INET }, *a;
	struct ibv_port_attr port;
	int rc;

	if ((errno = ibv_query_port(o->rdma.context, PORT, &port)))
		err(1, "ibv_query_port");
	memset(to, 0, sizeof(*to));
	if (port.link_layer == IBV_LINK_LAYER_INFINIBAND) {
		ib->sib_family = AF_IB;
		ib->sib_pkey = htobe16(FULL_MEMBER);
		ib->sib_sid = htobe64(RDMA_IB_IP_PS_TCP | must_number(o->port));
		ib->sib_sid_mask = ~0ULL;
		if (inet_pton(AF_INET6, o->host, &ib->sib_addr) != 1)
			errx(1, "%s is no GID", o->host);
		return;
	}
	rc = getaddrinfo(o->host, o->port, &hints, &a);
	if (rc)
		errx(1, "%s port %s: %s", o->host, o->port, gai_strerror(rc));
	memcpy(to, a->ai_addr, a->ai_addrlen);
	freeaddrinfo(a);
}

/* Goes on with the device that the connection manager has found, which must be the same one. */
static void use_device_of(struct options *o, struct rdma_cm_id *id)
{
	const char *want = ibv_get_device_name(o->rdma.context->device), *got;

	if (!id->verbs)
		errx(1, "the address is that of no device");
	got = ibv_get_device_name(id->verbs->device);
	if (strcmp(want, got))
		errx(1, "the address is that of %s", got);
	o->rdma.context = id->verbs;
	o->rdma.pd = ibv_alloc_pd(id->verbs);
	if (!o->rdma.pd)
		err(1, "ibv_alloc_pd");
}

static void done_with_device(struct options *o)
{
	if ((errno = ibv_dealloc_pd(o->rdma.pd)))
		err(1, "ibv_dealloc_pd");
}

/* The connection manager moves the queue pair from state to state. */
static struct pair queues_make(struct options *o, struct rdma_cm_id *id)
{
	struct pair p = { .cq = ibv_create_cq(id->verbs, 64, NULL, NULL, 0) };
	struct ibv_qp_init_attr init = {
		.send_cq = p.cq,
		.recv_cq = p.cq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	if (!p.cq)
		err(1, "ibv_create_cq");
	if (rdma_create_qp(id, o->rdma.pd, &init))
		err(1, "rdma_create_qp");
	p.near = id->qp;
	return p;
}

static void queues_free(struct pair *p, struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	if ((errno = ibv_destroy_cq(p->cq)))
		err(1, "ibv_destroy_cq");
}

static struct rdma_conn_param parameters(const struct offer *offer)
{
	return (struct rdma_conn_param) {
		.private_data = offer,
		.private_data_len = offer ? sizeof(*offer) : 0,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 6,
		.rnr_retry_count = 7,
	};
}

/* Serves one client until it disconnects. */
static void serve_one(struct options *o, struct rdma_cm_id *listener, const struct ibv_mr *mr)
{
	struct offer offer = {
		.addr = htobe64((uintptr_t)mr->addr),
		.length = htobe64(mr->length),
		.rkey = htobe32(mr->rkey),
	};
	struct rdma_conn_param param = parameters(&offer);
	struct rdma_cm_event *event = must_get(listener, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;
	struct pair p;

	rdma_ack_cm_event(event);
	p = queues_make(o, id);
	if (rdma_accept(id, &param))
		err(1, "rdma_accept");
	must_see(id, RDMA_CM_EVENT_ESTABLISHED);
	must_see(id, RDMA_CM_EVENT_DISCONNECTED);
	if (rdma_disconnect(id))
		err(1, "rdma_disconnect");
	queues_free(&p, id);
	/* The event channel is the listener's. */
	if (rdma_destroy_id(id))
		err(1, "rdma_destroy_id");
}

static int do_serve_cm(struct options *common)
{
	struct options o = *common;
	struct rdma_cm_id *listener = id_make();
	struct sockaddr_storage address;
	struct buffer peer = map_zeroed(o.memory, &o);
	struct ibv_mr *mr;

	server_address(&o, &address);
	if (rdma_bind_addr(listener, (struct sockaddr *)&address))
		err(1, "rdma_bind_addr to %s", o.host);
	use_device_of(&o, listener);
	mr = rdma_register(&o.rdma, peer.addr + o.offset, o.length);
	if (rdma_listen(listener, 8))
		err(1, "rdma_listen");
	report("serving", &peer, &o);
	for (int i = 0; i < o.count; i++)
		serve_one(&o, listener, mr);
	rdma_deregister(mr);
	buffer_unmap(&peer);
	done_with_device(&o);
	id_free(listener);
	printf("deregistered\n");
	return 0;
}

/* Prints the paths that the subnet administration has found. On Ethernet there is no such thing. */
static void print_paths(const struct rdma_cm_id *id)
{
	const struct ibv_sa_path_rec *path = id->route.path_rec;

	if (id->route.addr.dst_addr.sa_family != AF_IB)
		return;
	for (int i = 0; i < id->route.num_paths; i++, path++)
		printf("path from lid=%#x to lid=%#x pkey=%#x mtu=%u rate=%u hops=%u\n",
		       be16toh(path->slid), be16toh(path->dlid), be16toh(path->pkey), path->mtu,
		       path->rate, path->hop_limit);
}

static struct remote remote_connect(struct options *o, struct rdma_cm_id *id)
{
	struct remote r = { .tcp = -1, .pair = queues_make(o, id) };
	struct rdma_conn_param param = parameters(NULL);
	struct rdma_cm_event *event;
	struct offer offer;

	if (rdma_connect(id, &param))
		err(1, "rdma_connect");
	event = must_get(id, RDMA_CM_EVENT_ESTABLISHED);
	if (event->param.conn.private_data_len < sizeof(offer))
		errx(1, "the server did not say where its memory is");
	memcpy(&offer, event->param.conn.private_data, sizeof(offer));
	rdma_ack_cm_event(event);
	r.addr = be64toh(offer.addr);
	r.length = be64toh(offer.length);
	r.rkey = be32toh(offer.rkey);
	return r;
}

static int do_remote_cm(struct options *common)
{
	struct options o = *common;
	struct rdma_cm_id *id = id_make();
	struct sockaddr_storage address;
	struct remote r;
	int rc;

	server_address(&o, &address);
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, RESOLVE))
		err(1, "rdma_resolve_addr of %s", o.host);
	must_see(id, RDMA_CM_EVENT_ADDR_RESOLVED);
	use_device_of(&o, id);
	if (rdma_resolve_route(id, RESOLVE))
		err(1, "rdma_resolve_route");
	must_see(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	print_paths(id);
	r = remote_connect(&o, id);
	rc = remote_copy(&o, &r);

	if (rdma_disconnect(id))
		err(1, "rdma_disconnect");
	must_see(id, RDMA_CM_EVENT_DISCONNECTED);
	queues_free(&r.pair, id);
	done_with_device(&o);
	id_free(id);
	return rc;
}

static const struct action actions[] = {
	{ "serve", do_serve_cm, "let -n clients read and write MEMORY, one by one", false },
	{ "remote", do_remote_cm, "RDMA WRITE from MEMORY to the server's, READ back to the second",
	  false },
};

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "peer_cm",
		.actions = actions,
		.n_actions = sizeof(actions) / sizeof(actions[0]),
		.letters = "",
		.help = "The server's host (-c) is its IP address, on an InfiniBand port its GID; the "
			"server needs\nit as well. Its port (-p) is one of rdma_cm.\n",
	};

	return program_run(&program, argc, argv);
}
