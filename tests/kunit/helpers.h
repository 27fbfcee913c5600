/* SPDX-License-Identifier: GPL-2.0 */
#ifndef PEER_MEM_KUNIT_HELPERS_H
#define PEER_MEM_KUNIT_HELPERS_H

#include <linux/types.h>

struct dma_fence;
struct dma_resv;
struct task_struct;

struct dma_fence *kt_fence_add(struct dma_resv *resv);
void kt_fence_signal(struct dma_fence *fence);
unsigned long kt_user_pages(unsigned int pages);
int kt_walk(unsigned long addr);
void kt_close(int fd);
void kt_report_fatal(void *dev);
int mlx5r_umr_update_mr_pas(int result);
int kt_update_mr(int result);
void kt_hold(bool on);
unsigned int kt_held(void);
void kt_diagnostic(const void *args);
int kt_waits_begin(const char *function, unsigned long least);
unsigned int kt_waits(void);
void kt_waits_end(void);
unsigned long kt_wait_site(struct task_struct *task, char *names, unsigned int size);

#endif
