// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * iopm doctor --applications: what applications find on this machine, and what they conclude. The
 * sources that were read, with their versions, are in Documentation/applications.rst.
 */
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "probes.h"
#include "sys.h"

/* Whose memory an application registers. */
struct gpu {
	const char *name;
	const char *driver;		/* exists while its driver is loaded */
	const char *clients[3];		/* the names that its clients have */
};

static const struct gpu nvidia = { "NVIDIA's GPUs", "/proc/driver/nvidia/version",
				   { "nv_mem", "nv_mem_nc" } };
static const struct gpu amd = { "AMD's GPUs", "/dev/kfd", { "amdkfd" } };

/* How an application gets at memory without a copy through the host. */
enum way { BY_ADDRESS, BY_DMA_BUF, WAYS };

enum verdict { UNDECIDED, YES, NO };

/* The first probe of a way with a verdict decides; if no probe has one, the verdict is no. */
struct probe {
	const char *application;
	const struct gpu *gpu;
	enum way way;
	struct look look;
	enum verdict found, missing;
	const char *remedy;		/* if the verdict is wrong */
};

#define OPTION "CONFIG_DMABUF_MOVE_NOTIFY=y"
#define P2PDMA "CONFIG_PCI_P2PDMA=y"

#define STAGE_NCCL "NCCL_NET_GDR_LEVEL=LOC in the environment: staging through the host"
#define FORCE_RCCL "RCCL_FORCE_ENABLE_DMABUF=1 in the environment, if an RDMA device imports dma-bufs; else " \
		   "NCCL_NET_GDR_LEVEL=LOC: staging through the host"
#define STAGE_UCX "UCX_IB_GPU_DIRECT_RDMA=no in the environment: staging through the host"
#define STAGE_FI "FI_HMEM_DISABLE_P2P=1 in the environment: staging through the host"
#define NAME_FI "rename the RDMA device: rdma dev set NAME name roce0"
#define NO_SETTING "no setting helps until the application knows kernels from 7.1 on: use a client"

/* The probes of an application follow one another, in its order. */
static const struct probe probes[] = {
	{ "NCCL", &nvidia, BY_DMA_BUF, { .kind = IMPORT }, YES, NO, NULL },
	{ "NCCL", &nvidia, BY_ADDRESS,
	  { ANY_FILE, { PEERS "/nv_mem/version", PEERS "/nv_mem_nc/version",
			"/sys/module/nvidia_peermem/version" } }, YES, NO, STAGE_NCCL },

	{ "NCCL GIN", &nvidia, BY_ADDRESS,
	  { ANY_FILE, { "/sys/module/nvidia_peermem/version" } }, YES, NO,
	  "modprobe nvidia-peermem: NCCL looks for this module alone" },
	{ "NCCL GIN", &nvidia, BY_DMA_BUF, { .kind = IMPORT }, YES, NO, NULL },

	{ "RCCL, since mid 2026", &amd, BY_DMA_BUF, { .kind = IMPORT }, UNDECIDED, NO, NULL },
	{ "RCCL, since mid 2026", &amd, BY_DMA_BUF, { ANY_CONFIG, { OPTION, P2PDMA } }, YES, NO,
	  FORCE_RCCL },
	{ "RCCL, since mid 2026", &amd, BY_DMA_BUF,
	  { ALL_SYMBOLS, { "dma_buf_move_notify", "pci_p2pdma" } }, YES, NO, FORCE_RCCL },
	{ "RCCL, since mid 2026", &amd, BY_ADDRESS,
	  { ANY_DIRECTORY, { PEERS, "/sys/kernel/memory_peers", "/sys/memory_peers" } }, YES, NO,
	  FORCE_RCCL },

	{ "RCCL, before mid 2026", &amd, BY_DMA_BUF, { .kind = IMPORT }, UNDECIDED, NO, NULL },
	{ "RCCL, before mid 2026", &amd, BY_DMA_BUF, { ANY_CONFIG, { OPTION, P2PDMA } }, YES, NO,
	  FORCE_RCCL },
	{ "RCCL, before mid 2026", &amd, BY_ADDRESS,
	  { ANY_FILE, { PEERS "/amdkfd/version", "/sys/kernel/memory_peers/amdkfd/version",
			"/sys/memory_peers/amdkfd/version" } }, YES, UNDECIDED, NULL },
	{ "RCCL, before mid 2026", &amd, BY_ADDRESS,
	  { ANY_SYMBOL, { "T ib_register_peer_memory_client", "t ib_register_peer_memory_client" } },
	  YES, NO, FORCE_RCCL },

	{ "UCX", &nvidia, BY_DMA_BUF, { .kind = IMPORT }, YES, NO, NULL },
	{ "UCX", &nvidia, BY_ADDRESS,
	  { ANY_FILE, { PEERS "/nv_mem/version", "/sys/module/nvidia_peermem/version",
			"/sys/module/nv_peer_mem/version" } }, YES, NO, STAGE_UCX },

	{ "UCX", &amd, BY_DMA_BUF, { .kind = IMPORT }, UNDECIDED, NO, NULL },
	{ "UCX", &amd, BY_DMA_BUF, { VARIABLE_IS, { "UCX_ROCM_COPY_DMABUF", "y" } }, UNDECIDED, NO, NULL },
	{ "UCX", &amd, BY_DMA_BUF, { BOOT_CONFIG, { OPTION, P2PDMA } }, YES, UNDECIDED, NULL },
	{ "UCX", &amd, BY_DMA_BUF, { ALL_SYMBOLS, { "dma_buf_move_notify", "pci_p2pdma" } }, YES, NO,
	  NO_SETTING },
	{ "UCX", &amd, BY_ADDRESS, { ANY_FILE, { "/dev/kfd" } }, YES, NO,
	  "UCX_ROCM_COPY_DMABUF=yes in the environment, if an RDMA device imports dma-bufs; else "
	  "UCX_IB_GPU_DIRECT_RDMA=no: staging through the host" },

	{ "NVSHMEM", &nvidia, BY_DMA_BUF, { OF_THE_GPU, { "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED" } },
	  YES, NO, NULL },
	{ "NVSHMEM", &nvidia, BY_ADDRESS,
	  { ANY_FILE, { PEERS "/nv_mem/version", PEERS "/nvidia-peermem/version",
			"/sys/module/nvidia_peermem/version" } }, YES, NO,
	  "NVSHMEM_REMOTE_TRANSPORT=none in the environment, if no dma-bufs are usable" },

	{ "libfabric", &nvidia, BY_DMA_BUF, { ANY_SYMBOL, { "ib_umem_dmabuf_get" } }, UNDECIDED, NO, NULL },
	{ "libfabric", &nvidia, BY_DMA_BUF, { .kind = IMPORT }, YES, NO, NULL },
	{ "libfabric", &nvidia, BY_ADDRESS, { DEVICE_NAME, { "mlx", "bnxt_re", "roce" } }, UNDECIDED, NO,
	  NAME_FI },
	{ "libfabric", &nvidia, BY_ADDRESS, { ANY_SYMBOL, { "ib_register_peer_memory_client" } }, YES, NO,
	  STAGE_FI },

	{ "libfabric", &amd, BY_DMA_BUF, { .kind = IMPORT }, UNDECIDED, NO, NULL },
	{ "libfabric", &amd, BY_DMA_BUF, { BOOT_CONFIG, { OPTION, P2PDMA } }, YES, NO, NO_SETTING },
	{ "libfabric", &amd, BY_ADDRESS, { DEVICE_NAME, { "mlx", "bnxt_re", "roce" } }, UNDECIDED, NO,
	  NAME_FI },
	{ "libfabric", &amd, BY_ADDRESS, { ANY_SYMBOL, { "ib_register_peer_memory_client" } }, YES, NO,
	  STAGE_FI },

	{ "nvidia-fs", &nvidia, BY_ADDRESS, { ANY_FILE, { PEERS "/nv_mem/version" } }, YES, NO,
	  "modprobe nvidia-peermem, before nvidia-fs is used" },

	{ "perftest --use_cuda", &nvidia, BY_ADDRESS, { .kind = NOTHING }, YES, NO,
	  "--use_cuda_dmabuf as well, if the RDMA device imports dma-bufs" },
	{ "perftest --use_rocm", &amd, BY_ADDRESS, { .kind = NOTHING }, YES, NO,
	  "--use_rocm_dmabuf as well, on kernels before 7.1" },
	{ "perftest --use_rocm_dmabuf", &amd, BY_DMA_BUF, { .kind = IMPORT }, UNDECIDED, NO, NULL },
	{ "perftest --use_rocm_dmabuf", &amd, BY_DMA_BUF, { BOOT_CONFIG, { OPTION, P2PDMA } }, YES,
	  UNDECIDED, NULL },
	{ "perftest --use_rocm_dmabuf", &amd, BY_DMA_BUF,
	  { ALL_SYMBOLS, { " dma_buf_move_notify" } }, YES, NO,
	  "--use_rocm without --use_rocm_dmabuf, with a client" },

	{ "Mooncake", &nvidia, BY_ADDRESS, { VARIABLE_IS_NOT, { "WITH_NVIDIA_PEERMEM", "0" } }, YES, NO,
	  "WITH_NVIDIA_PEERMEM=0 in the environment of Mooncake: dma-bufs" },
	{ "Mooncake", &nvidia, BY_DMA_BUF, { VARIABLE_IS, { "WITH_NVIDIA_PEERMEM", "0" } }, UNDECIDED, NO,
	  NULL },
	{ "Mooncake", &nvidia, BY_DMA_BUF, { .kind = IMPORT }, YES, NO, NULL },
};

struct conclusion {
	enum verdict verdict;
	bool known;			/* false: a probe could not look */
	const struct probe *by;		/* the probe that decided, or the last one; NULL without any */
};

/* @last: what the probe before has found, which is not reported again. */
static void run_probe(const struct probe *probe, const struct adapters *adapters,
		      struct conclusion *conclusion, char last[512])
{
	char text[512];
	enum finding finding = look_at(&probe->look, adapters, text, sizeof(text));

	if (strcmp(text, last))
		report(finding == NOT_KNOWN ? UNKNOWN : OK, NULL, "%s", strcpy(last, text));
	conclusion->by = probe;
	if (finding == NOT_KNOWN)
		conclusion->known = false;
	else if (finding != NOTHING_THERE)
		conclusion->verdict = finding == FOUND ? probe->found : probe->missing;
}

static bool usable(const struct conclusion *conclusion)
{
	return conclusion->verdict == YES && conclusion->known;
}

static void report_conclusions(const struct conclusion conclusions[WAYS])
{
	static const char *const names[WAYS] = { "peer memory", "dma-bufs" };
	bool any = false, known = true;
	char text[128] = "concludes: ";

	for (int way = 0; way < WAYS; way++) {
		const struct conclusion *conclusion = &conclusions[way];

		if (!conclusion->by)
			continue;
		if (conclusion->verdict != NO && !conclusion->known) {
			known = false;
		} else if (usable(conclusion)) {
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s usable",
				 any ? ", " : "", names[way]);
			any = true;
		}
	}
	if (!any)
		strcat(text, known ? "staging through the host, or an error" : "peer memory not usable");
	report(known ? OK : UNKNOWN, NULL, "%s%s", text, known ? "" : ", dma-bufs not known");
}

/* Returns the client that has the memory, or NULL. */
static const char *registered_client(const struct gpu *gpu)
{
	for (int i = 0; gpu->clients[i]; i++)
		if (sys_exists(PEERS "/%s", gpu->clients[i]))
			return gpu->clients[i];
	return NULL;
}

/* Where dma-bufs are usable they are preferred to peer memory, so that is no failure. */
static void compare_with_clients(const struct conclusion conclusions[WAYS])
{
	const struct conclusion *conclusion = &conclusions[BY_ADDRESS];
	const struct gpu *gpu;
	const char *client;
	enum status status;
	bool driver;

	if (!conclusion->by)
		return;
	gpu = conclusion->by->gpu;
	client = registered_client(gpu);
	driver = sys_exists("%s", gpu->driver);
	status = driver && !usable(&conclusions[BY_DMA_BUF]) ? FAIL : WARN;
	if (conclusion->verdict == YES && !client)
		report(status, conclusion->by->remedy, "wrong: no client for memory of %s is registered, "
		       "so ibv_reg_mr() of it fails%s", gpu->name, driver ? "" :
		       " (no driver of such a GPU is loaded)");
	else if (conclusion->verdict != YES && client)
		report(status, conclusion->by->remedy,
		       "wrong: the client %s is registered, so peer memory works", client);
}

/* Linux 7.1 has removed the option: dma-bufs always do what it allowed. */
static void compare_with_kernel(const struct conclusion *conclusion, const struct adapters *adapters)
{
	static const struct look p2pdma = { ALL_SYMBOLS, { "pci_p2pdma" } };
	struct release release = sys_release();
	char text[128];

	if (!conclusion->by || conclusion->verdict == YES ||
	    (conclusion->by->look.kind != BOOT_CONFIG && conclusion->by->look.kind != ANY_CONFIG &&
	     conclusion->by->look.kind != ALL_SYMBOLS))
		return;
	if (release.major * 1000 + release.minor < 7001 ||
	    look_at(&p2pdma, adapters, text, sizeof(text)) != FOUND)
		return;
	report(WARN, conclusion->by->remedy, "wrong: Linux %d.%d has no CONFIG_DMABUF_MOVE_NOTIFY, as "
	       "kernels from 7.1 on always do what it allowed", release.major, release.minor);
}

void check_applications(const struct adapters *adapters)
{
	static const size_t count = sizeof(probes) / sizeof(probes[0]);
	/* The report keeps the pointer. */
	static char area[96];

	for (size_t i = 0; i < count;) {
		struct conclusion conclusions[WAYS] = { { .known = true }, { .known = true } };
		const struct probe *first = &probes[i];
		char last[512] = "";

		snprintf(area, sizeof(area), "%s: memory of %s", first->application, first->gpu->name);
		report_area(area);
		for (; i < count && !strcmp(probes[i].application, first->application) &&
		     probes[i].gpu == first->gpu; i++)
			if (conclusions[probes[i].way].verdict == UNDECIDED)
				run_probe(&probes[i], adapters, &conclusions[probes[i].way], last);
		report_conclusions(conclusions);
		compare_with_clients(conclusions);
		compare_with_kernel(&conclusions[BY_DMA_BUF], adapters);
	}
}
