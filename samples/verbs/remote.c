// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Two hosts: the client reads and writes the server's memory.
 *
 * The verbs are the same as on one host. In addition the hosts exchange the addresses
 * of their queue pairs over TCP, and the server sends the address, length and rkey of
 * its memory. The server's CPU takes no part in the transfers. It deregisters the
 * memory when the client closes the connection.
 */
#include <endian.h>
#include <err.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "actions.h"
#include "pattern.h"

/* Seconds to wait for the other host, which may still start. */
#define PATIENCE 45

/* The message over TCP, big endian. A client sends 0 for the memory. */
struct hello {
	union ibv_gid gid;
	uint64_t addr, length;
	uint32_t rkey, qp_num, lid, pad;
};

static void send_hello(int tcp, struct rdma *r, struct pair *p, const struct ibv_mr *mr)
{
	struct address near = pair_address(r, p);
	struct hello h = { .gid = near.gid, .qp_num = htobe32(near.qp_num),
			   .lid = htobe32(near.lid) };

	if (mr) {
		h.addr = htobe64((uintptr_t)mr->addr);
		h.length = htobe64(mr->length);
		h.rkey = htobe32(mr->rkey);
	}
	if (send(tcp, &h, sizeof(h), MSG_NOSIGNAL) != sizeof(h))
		err(1, "send");
}

/* On return the queue pair accepts requests of the other host. */
static struct hello receive_hello(int tcp, struct rdma *r, struct pair *p)
{
	struct address far = { 0 };
	struct hello h;

	if (recv(tcp, &h, sizeof(h), MSG_WAITALL) != sizeof(h))
		errx(1, "the other host sent no queue pair");
	far.gid = h.gid;
	far.qp_num = be32toh(h.qp_num);
	far.lid = (uint16_t)be32toh(h.lid);
	pair_connect(r, p, &far);
	return h;
}

static struct addrinfo *resolve(const char *host, const char *port)
{
	struct addrinfo hints = {
		.ai_family = AF_INET,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = host ? 0 : AI_PASSIVE,
	};
	struct addrinfo *a;
	int rc = getaddrinfo(host, port, &hints, &a);

	if (rc)
		errx(1, "%s port %s: %s", host ? host : "any", port, gai_strerror(rc));
	return a;
}

static int tcp_socket(const struct addrinfo *a)
{
	struct timeval patience = { .tv_sec = PATIENCE };
	int tcp = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);

	/* The sockets that a server accepts inherit the timeout. */
	if (tcp < 0 || setsockopt(tcp, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		err(1, "socket");
	return tcp;
}

static int tcp_listen(const char *port)
{
	struct addrinfo *a = resolve(NULL, port);
	int tcp = tcp_socket(a), on = 1;

	if (setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(tcp, a->ai_addr, a->ai_addrlen) || listen(tcp, 8))
		err(1, "port %s", port);
	freeaddrinfo(a);
	return tcp;
}

/* Tries again while the server starts. */
static int tcp_connect(const char *host, const char *port)
{
	struct addrinfo *a = resolve(host, port);
	time_t end = time(NULL) + PATIENCE;
	int tcp;

	while (tcp = tcp_socket(a), connect(tcp, a->ai_addr, a->ai_addrlen)) {
		if (time(NULL) > end)
			err(1, "%s port %s", host, port);
		close(tcp);
		usleep(200000);
	}
	freeaddrinfo(a);
	return tcp;
}

/* Serves one client until it closes the connection. */
static void serve_one(struct options *o, int listener, const struct ibv_mr *mr)
{
	struct pair p = pair_make_near(&o->rdma);
	int tcp = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	char none;

	if (tcp < 0)
		err(1, "accept");
	/* The client writes as soon as it has the reply: connect the queue pair first. */
	receive_hello(tcp, &o->rdma, &p);
	send_hello(tcp, &o->rdma, &p, mr);
	if (recv(tcp, &none, 1, 0) != 0)
		errx(1, "the client did not close the connection");
	close(tcp);
	pair_free(&p);
}

int do_serve(struct options *o)
{
	struct buffer peer = map_zeroed(o->memory, o);
	struct ibv_mr *mr = rdma_register(&o->rdma, peer.addr + o->offset, o->length);
	int listener = tcp_listen(o->port);

	report("serving", &peer, o);
	for (int i = 0; i < o->count; i++)
		serve_one(o, listener, mr);
	close(listener);
	rdma_deregister(mr);
	buffer_unmap(&peer);
	printf("deregistered\n");
	return 0;
}

struct remote remote_open(struct options *o)
{
	struct remote r = {
		.tcp = tcp_connect(o->host, o->port),
		.pair = pair_make_near(&o->rdma),
	};
	struct hello h;

	send_hello(r.tcp, &o->rdma, &r.pair, NULL);
	h = receive_hello(r.tcp, &o->rdma, &r.pair);
	r.addr = be64toh(h.addr);
	r.length = be64toh(h.length);
	r.rkey = be32toh(h.rkey);
	return r;
}

void remote_close(struct remote *r)
{
	pair_free(&r->pair);
	close(r->tcp);
}

/* RDMA WRITE or READ of the server's whole MR. */
static void remote_must_rw(struct remote *r, enum ibv_wr_opcode opcode, struct ibv_mr *mr)
{
	enum ibv_wc_status status = pair_rw_key(&r->pair, opcode, mr, mr->addr, r->rkey, r->addr,
						r->length);

	if (status != IBV_WC_SUCCESS)
		errx(1, "RDMA %s: %s", opcode == IBV_WR_RDMA_READ ? "READ" : "WRITE",
		     ibv_wc_status_str(status));
}

int do_remote(struct options *o)
{
	struct remote r = remote_open(o);
	struct buffer want = host_memory(o->length);
	struct buffer from = map_zeroed(o->memory, o), back = map_zeroed(o->memory2, o);
	struct ibv_mr *from_mr = rdma_register(&o->rdma, from.addr + o->offset, o->length);
	struct ibv_mr *back_mr = rdma_register(&o->rdma, back.addr + o->offset, o->length);

	if (r.length != o->length)
		errx(1, "the server's MR has %llu bytes", (unsigned long long)r.length);
	pattern_fill(want.addr, o->length, o->seed);
	memcpy(from_mr->addr, want.addr, o->length);
	remote_must_rw(&r, IBV_WR_RDMA_WRITE, from_mr);
	remote_must_rw(&r, IBV_WR_RDMA_READ, back_mr);
	must_equal(back_mr->addr, want.addr, o->length, "RDMA READ");
	report("from", &from, o);
	report("back", &back, o);

	remote_close(&r);
	rdma_deregister(back_mr);
	rdma_deregister(from_mr);
	buffer_unmap(&back);
	buffer_unmap(&from);
	return 0;
}
