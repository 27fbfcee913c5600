/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The checks of "iopm doctor", by area. */
#ifndef DOCTOR_H
#define DOCTOR_H

#include "report.h"
#include "stack.h"

/* The configuration of the kernel, lockdown, the IOMMU. */
void check_kernel(void);

/* Whether the modules are there, loaded and signed. */
void check_modules(void);

/* Each RDMA device: its port, its backend, whether it can be fenced. */
void check_adapters(const struct adapters *adapters);

/* The registered clients. */
void check_clients(void);

/* NVIDIA's and AMD's drivers, if there is such a GPU or driver. */
void check_gpus(const struct memories *memories);

/* NVIDIA's modules that DKMS has not installed for the running kernel, with the errors of the build. */
void check_nvidia_dkms(void);

/* What to do without a driver of NVIDIA: a fix for report(). */
const char *nvidia_release_fix(void);

/* The memory: BARs, links, and the permission to use it. */
void check_memory(const struct memories *memories);

/* What the caller may do: device nodes, the group rdma, the limit of locked memory. */
void check_caller(const struct memories *memories);

/* The route of each RDMA device to each memory. */
void check_routes(const struct adapters *adapters, const struct memories *memories);

/* The last rejections of the core. */
void check_rejections(void);

/* A transfer between each RDMA device and each memory. */
void check_transfers(const struct adapters *adapters, const struct memories *memories);

/* What applications look at, find and conclude; not a part of the other checks. */
void check_applications(const struct adapters *adapters);

#endif /* DOCTOR_H */
