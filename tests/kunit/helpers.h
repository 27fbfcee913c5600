/* SPDX-License-Identifier: GPL-2.0 */
#ifndef PEER_MEM_KUNIT_HELPERS_H
#define PEER_MEM_KUNIT_HELPERS_H

#include <linux/types.h>

struct device;
struct dma_fence;
struct dma_resv;
struct file;
struct scatterlist;
struct sg_table;
struct task_struct;

u64 kt_alloc(unsigned int order);
void kt_free(u64 phys, unsigned int order);
u64 kt_phys_of(u64 virt);
void kt_sg_set(struct scatterlist *sg, u64 phys, unsigned int len);
void kt_sg_unmark_end(struct scatterlist *list, unsigned int entry);
void kt_sg_set_dma(struct scatterlist *sg, u64 addr, unsigned int len);
unsigned int kt_set_max_seg_size(struct device *dev, unsigned int size);
int kt_dma_map(struct device *dev, struct sg_table *table);
void kt_dma_unmap(struct device *dev, struct sg_table *table);
struct device *kt_pci_get(void);
void kt_pci_put(struct device *dev);
void kt_pci_set_gone(struct device *dev, bool gone);
void kt_count_up(atomic_t *count);
void kt_fail_nth(unsigned int n);
unsigned int kt_fail_left(void);
struct dma_fence *kt_fence_add(struct dma_resv *resv);
void kt_fence_signal(struct dma_fence *fence);
struct file *kt_control_open(void);
void kt_control_close(struct file *control);
unsigned long kt_user_pages(unsigned int pages);
int kt_walk(unsigned long addr);
int kt_export(struct file *control, unsigned long at, u64 addr, u64 length);
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
