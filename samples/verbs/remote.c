// SPDX-License-Identifier: GPL-2.0
/*
 * Between two hosts: the server has the memory, the client reads and writes it.
 *
 * The verbs are those of one host. What is added is how the two get to know of each
 * other: each tells the other its queue pair over TCP, and the server where its memory
 * is and the key to it. From then on the server's CPU has no part in it; when the
 * client hangs up, it is done.
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

/* How long one side waits for the other: both are being started. */
#define PATIENCE 45

/* As it goes over TCP, big endian; what a client has no use for is 0. */
struct hello {
	union ibv_gid gid;
	uint64_t addr, length;
	uint32_t rkey, qp_num;
};

/* A client's connection to a server, and the server's memory. */
struct remote {
	int tcp;
	struct pair pair;
	uint64_t addr, length;
	uint32_t rkey;
};

static void tell(int tcp, struct rdma *r, struct pair *p, const struct ibv_mr *mr)
{
	struct address near = pair_address(r, p);
	struct hello h = { .gid = near.gid, .qp_num = htobe32(near.qp_num) };

	if (mr) {
		h.addr = htobe64((uintptr_t)mr->addr);
		h.length = htobe64(mr->length);
		h.rkey = htobe32(mr->rkey);
	}
	if (send(tcp, &h, sizeof(h), MSG_NOSIGNAL) != sizeof(h))
		err(1, "send");
}

/* The queue pair is ready for the other side's requests when this returns. */
static struct hello learn(int tcp, struct rdma *r, struct pair *p)
{
	struct address far;
	struct hello h;

	if (recv(tcp, &h, sizeof(h), MSG_WAITALL) != sizeof(h))
		errx(1, "the other side says nothing");
	far.gid = h.gid;
	far.qp_num = be32toh(h.qp_num);
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

	/* Of a server's socket those that it accepts have it as well. */
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

/* The server may still be on its way. */
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

/* One client, until it hangs up. */
static void serve_one(struct options *o, int listener, const struct ibv_mr *mr)
{
	struct pair p = pair_make_near(&o->rdma);
	int tcp = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	char none;

	if (tcp < 0)
		err(1, "accept");
	/* In this order: once the client knows of us it writes. */
	learn(tcp, &o->rdma, &p);
	tell(tcp, &o->rdma, &p, mr);
	if (recv(tcp, &none, 1, 0) != 0)
		errx(1, "the client does not end");
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

static struct remote remote_open(struct options *o)
{
	struct remote r = {
		.tcp = tcp_connect(o->host, o->port),
		.pair = pair_make_near(&o->rdma),
	};
	struct hello h;

	tell(r.tcp, &o->rdma, &r.pair, NULL);
	h = learn(r.tcp, &o->rdma, &r.pair);
	r.addr = be64toh(h.addr);
	r.length = be64toh(h.length);
	r.rkey = be32toh(h.rkey);
	return r;
}

static void remote_close(struct remote *r)
{
	pair_free(&r->pair);
	close(r->tcp);
}

/* RDMA WRITE or READ of all of the server's memory. */
static void must_rw(struct remote *r, enum ibv_wr_opcode opcode, struct ibv_mr *mr)
{
	enum ibv_wc_status status = pair_rw_key(&r->pair, opcode, mr, mr->addr, r->rkey, r->addr,
						r->length);

	if (status != IBV_WC_SUCCESS)
		errx(1, "RDMA %s: %s", opcode == IBV_WR_RDMA_READ ? "READ" : "WRITE",
		     ibv_wc_status_str(status));
}

int do_remote(struct options *o)
{
	struct buffer want = host_memory(o->length);
	struct buffer from = map_zeroed(o->memory, o), back = map_zeroed(o->memory2, o);
	struct ibv_mr *from_mr = rdma_register(&o->rdma, from.addr + o->offset, o->length);
	struct ibv_mr *back_mr = rdma_register(&o->rdma, back.addr + o->offset, o->length);
	struct remote r = remote_open(o);

	if (r.length != o->length)
		errx(1, "the server's MR has %llu bytes", (unsigned long long)r.length);
	pattern_fill(want.addr, o->length, o->seed);
	memcpy(from_mr->addr, want.addr, o->length);
	must_rw(&r, IBV_WR_RDMA_WRITE, from_mr);
	must_rw(&r, IBV_WR_RDMA_READ, back_mr);
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

/*
 * The server's memory may be taken away as that of this host may: a remote access
 * error, and so it stays, for new queue pairs as well.
 */
int do_stream(struct options *o)
{
	struct buffer from = map_zeroed(o->memory, o);
	struct ibv_mr *from_mr = rdma_register(&o->rdma, from.addr + o->offset, o->length);
	struct remote r = remote_open(o);
	enum ibv_wc_status status;
	uint64_t count;

	if (o->length < CHUNK || r.length < CHUNK)
		errx(1, "the MRs must have at least %d bytes", CHUNK);
	status = write_until_it_fails(&r.pair, from_mr, r.rkey, r.addr, r.length, &count);
	remote_close(&r);
	if (status != IBV_WC_REM_ACCESS_ERR || count == 1)
		return 1;

	for (int i = 0; i < o->count; i++) {
		r = remote_open(o);
		status = pair_rw_key(&r.pair, IBV_WR_RDMA_WRITE, from_mr, from_mr->addr, r.rkey,
				     r.addr, CHUNK);
		remote_close(&r);
		if (status != IBV_WC_REM_ACCESS_ERR) {
			printf("a later write: %s\n", ibv_wc_status_str(status));
			return 1;
		}
	}
	printf("still revoked after %d more writes\n", o->count);
	rdma_deregister(from_mr);
	buffer_unmap(&from);
	return 0;
}
