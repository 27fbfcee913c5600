// SPDX-License-Identifier: GPL-2.0

//! The list of the counters. The KUnit suites include this file as well.

/// Calls the macro `$then` with the counters, a line for each: the name, and the file in sysfs. The
/// three pairs are equal once all MRs are gone. Documentation/operations.rst describes the files.
macro_rules! counters {
    ($then:ident) => {
        $then! {
            AllocMrs => c"num_alloc_mrs",
            DeallocMrs => c"num_dealloc_mrs",
            RegPages => c"num_reg_pages",
            DeregPages => c"num_dereg_pages",
            RegBytes => c"num_reg_bytes",
            DeregBytes => c"num_dereg_bytes",
            FreeCallbacks => c"num_free_callbacks",
            Revocations => c"num_revocations",
            FailedFences => c"num_failed_fences",
        }
    };
}
