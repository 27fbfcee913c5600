// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The command line. The manual pages and the completions of shells are generated from it (build.rs).

use clap::{Args, Parser, Subcommand};
use std::{ffi::OsString, path::PathBuf};

/// After the line of its license.
pub(crate) const MORE: &str = include_str!("more.txt");

/// List and check the memory of PCI devices for RDMA
///
/// iopm shows the memory that RDMA devices reach through the module ib_peer_mem: the PCI BARs that the
/// driver io_peer_mem serves, the peer-to-peer memory of other drivers, such as the controller memory buffer
/// of an SSD, and GPUs. DEVICE is an RDMA device, or a network device; BDF is the address of a PCI function,
/// as "lspci -D" shows it (0000:03:00.0).
#[derive(Parser)]
#[command(name = "iopm", version, after_long_help = MORE.split_once('\n').map(|(_, text)| text))]
pub(crate) struct Cli {
    /// Another root for /sys, /proc and /dev, for tests
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) sysroot: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Check all that device memory for RDMA needs, and say how to fix what is missing
    ///
    /// The kernel, lockdown and the IOMMU; the modules and their signatures; for each RDMA device, or DEVICE
    /// alone, its port, the backend that serves it, and whether it can be fenced; the clients; the flavour of
    /// NVIDIA's driver, its state in dkms(8) with the errors of a failed build, and the symbols of
    /// nvidia-peermem; the memory, its links and BAR sizes; the permissions and limits of the caller; the
    /// distance and route of each pair, with the parameter of the kernel that fixes it; and the last
    /// registrations that ib_peer_mem rejected.
    ///
    /// Each line is ok, warn, FAIL, or ? if the caller may not find out. A line "fix:" has what to do. A pair
    /// without a route is a warning, an RDMA device or a memory without any is a failure. With --json the
    /// members are checks (area, status, text, fix), ok, unknown, warn and fail.
    Doctor(Doctor),
    /// List the memory for RDMA, and how much of it is free
    ///
    /// All memory with size, free memory, largest free range, and the function. With --json: memory is an
    /// array of objects with name, path, kind (bar or p2pmem), function, id, description, driver, size, free
    /// and largest.
    List(Json),
    /// Show one BAR, /dev/io_peer_mem/BDF/barN, or those of a function
    ///
    /// In bytes, and whether other drivers may allocate from the BAR, such as the NVMe target (published).
    Info {
        /// A BAR, or a function
        #[arg(value_name = "BAR|BDF")]
        what: String,
    },
    /// Sort the memory by its distance from an RDMA or network device
    ///
    /// Distances are those of the kernel's p2pdma: 0 for the function itself, 2 within a device, 4 below one
    /// switch, more through a host bridge; "no way" if the kernel does not support peer-to-peer DMA between
    /// the two.
    Nearest {
        /// A device, or a function
        #[arg(value_name = "DEVICE|BDF")]
        device: String,
    },
    /// Show the distance and route between each RDMA device and each memory
    ///
    /// The route is "bus address" if only bridges lie between the two, else "host bridge". A question mark:
    /// the caller may not read the ACS control of the bridges, or only the kernel knows whether the host
    /// bridge routes. With --json: pairs is an array of objects with memory, kind, device, route (bus address,
    /// host bridge, none, CPU copies), distance, and certain, which is false where the table has a question
    /// mark.
    Topology(Json),
    /// Show the modules, the RDMA devices with their backends, and the clients
    ///
    /// For root also the memory regions on mapped dma-bufs of other drivers. With --json: modules (name,
    /// loaded, version); backends_known is false if the caller may not read the backends; devices (name,
    /// function, driver, backend, can_fence); clients (name, version, mrs, bytes, mrs_ever, invalidations);
    /// dma_bufs (device, mrs, bytes, mrs_ever).
    Status(Json),
    /// List which process has registered which memory of which client (root)
    ///
    /// The live memory regions on memory of clients and on dma-bufs: the process that has registered the
    /// memory; the kind (mr, export of a dma-buf, umem for queues and other memory that a driver pins, import
    /// of a dma-buf of another exporter); the client, or the exporter; the RDMA device and the local key, if
    /// there are any; address and length; the age in seconds; and the state, of which revoked means that the
    /// process still has the memory region, and the device has no access any more, and unnamed that the
    /// process has freed the memory, which others cannot have while the memory region is there. With --json: regions is
    /// an array of objects with pid, process, kind, client, device, lkey, address, length, age and state;
    /// keys and addresses are hexadecimal texts.
    Regions(Json),
    /// Print the state as text of OpenMetrics, for Prometheus
    ///
    /// The counters of the clients, the number and bytes of the live regions, the RDMA devices, the rejected
    /// registrations, and the sizes of the memory. Regions, devices and rejections are for root. The timer
    /// iopm-metrics.timer of the package writes the text each 30 seconds for the node exporter, to
    /// /var/lib/prometheus/node-exporter/ib_peer_mem.prom, if the directory exists.
    Metrics(Output),
    /// Print a CDI specification of the memory and the RDMA devices, for containers
    ///
    /// Of the Container Device Interface, version 0.6.0, of kind ib-peer-mem/device, by which podman, docker
    /// and Kubernetes give device files to containers. It has a device for each BAR of io_peer_mem
    /// (0000:03:00.0-bar2), with /dev/ib_peer_mem; for each RDMA device, by its name, with
    /// /dev/infiniband/rdma_cm if that is there; all; and gpu, with /usr/lib/iopm/libiopm-gpu.so, to which
    /// programs need LD_PRELOAD set (iopm-gpu(7)). Run it again after a function is bound or unbound,
    /// and after an RDMA device is added: iopm cdi --output /etc/cdi/ib-peer-mem.json
    Cdi(Output),
    /// Write to memory by RDMA, read it back and compare
    ///
    /// 64 KiB, for each RDMA device and each memory, or for those given.
    Test {
        /// An RDMA device
        device: Option<String>,
        /// A character device of device memory that can be mapped, or p2pmem/allocate of a function; the test
        /// overwrites it
        file: Option<String>,
    },
    /// List the PCI functions with a BAR that io_peer_mem can serve
    Candidates,
    /// Bind a PCI function to io_peer_mem
    ///
    /// With its driver_override, until it is unbound or the machine reboots. If the module is not loaded, it
    /// is loaded, and with it ib_peer_mem; if the bind fails then, both are unloaded again. A function that is
    /// in use is refused: a disk that is mounted, swap, part of another one, exported by the NVMe target, open
    /// in a process, or held exclusively by anybody, also over another controller of it; an NVMe controller
    /// that a process has open or the NVMe target exports; a network interface that is up; a graphics, sound or
    /// RDMA device. One that belongs to another driver, or that is for another one by its driver_override, is
    /// refused without --force.
    Bind {
        /// A BAR of a function whose class is not memory
        ///
        /// Use it only if the BAR holds memory, as access to registers is equivalent to root. It applies to this
        /// function alone, and until it is unbound: it is written with the address of the function to bind_with
        /// of the driver. Without it the parameter bars of the module counts. Fails if the function is bound
        /// with other BARs.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..6))]
        bar: Option<u8>,
        /// Unbind the function from its driver
        #[arg(long)]
        force: bool,
        /// The function
        bdf: String,
    },
    /// Unbind a function from io_peer_mem
    ///
    /// Clears its driver_override. With the last function io_peer_mem is unloaded, and then ib_peer_mem,
    /// unless something uses it, modules-load.d(5) or the kernel's command line names it, or a parameter (ids,
    /// devices, mmio, p2pmem) has io_peer_mem serve more than single functions. ib_peer_mem also stays if a
    /// process has libiopm or libiopm-gpu.so, and so maybe names of memory (iopm_register_dmabuf(3)), which are
    /// lost with the module, as ids that were written to new_id are with io_peer_mem. Programs that make names
    /// without these shared libraries, by the crate iopm, libiopm.a or the ioctl, are not seen, and lose
    /// theirs: name ib_peer_mem in modules-load.d(5) for them. Software such as RCCL takes a loaded ib_peer_mem
    /// for GPU memory that can be registered.
    Unbind {
        /// The function
        bdf: String,
    },
    /// Refuse new registrations of this memory, and wait until the old ones are gone (root)
    ///
    /// Registrations of the memory of a function that io_peer_mem serves, or of all memory of a client, whose
    /// name status shows, fail with EBUSY, which doctor lists with the cause. What is registered stays usable.
    /// The command waits until all memory regions on the memory are deregistered or revoked, and otherwise
    /// lists the processes that have one, with exit status 3. Until --end, or until the function is unbound or
    /// the client unregistered, no new one is made, whatever the exit status. Mappings stay: a process can
    /// still access the memory by the CPU.
    Drain {
        /// Wait so long
        #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
        timeout: u64,
        /// Allow registrations again
        #[arg(long)]
        end: bool,
        /// A function, or a client
        #[arg(value_name = "BDF|CLIENT")]
        what: String,
    },
    /// Unload ib_peer_mem and its clients, so that the RDMA stack can be stopped (root)
    ///
    /// What stops the stack fails with "Module ib_core is in use by: ib_peer_mem" otherwise. All modules that
    /// use ib_peer_mem are unloaded, such as io_peer_mem and nvidia_peermem, and then ib_peer_mem. If one is
    /// in use, or memory is registered, nothing changes: the command says which process or client holds
    /// what, with exit status 3.
    Stop {
        /// Also if memory is registered: the memory regions are revoked
        #[arg(long)]
        force: bool,
    },
    /// Load again what stop has unloaded (root)
    ///
    /// With the parameters that ib_peer_mem and io_peer_mem had, and binds the functions that io_peer_mem
    /// had, with the same BARs. A function that another driver has now, or that is for another one by its
    /// driver_override, is left to it, which is said once, and no failure. Fails if a module cannot be loaded,
    /// or one of the clients is not registered again, and can be repeated then.
    Start,
    /// Run a program whose GPU memory ibv_reg_mr(3) can register
    ///
    /// Executes the program with libiopm-gpu.so, before other libraries in LD_PRELOAD: iopm-gpu(7).
    Gpu {
        /// The program, and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<OsString>,
    },
    /// One transfer of test, in a process of its own
    #[command(hide = true)]
    Transfer { device: String, file: String },
}

#[derive(Args)]
pub(crate) struct Doctor {
    /// Also write to and read from each memory that a file maps over loop-back, and compare the bytes
    #[arg(long, conflicts_with = "applications")]
    pub(crate) test: bool,
    /// Show instead what applications look at before they use the memory of a GPU, and what they conclude
    ///
    /// NCCL, RCCL, UCX, NVSHMEM, libfabric, nvidia-fs, perftest and Mooncake. The block of an application has
    /// what it finds on this machine, its conclusion (peer memory or dma-bufs are usable, else staging through
    /// the host, or an error), and in a line "wrong:" how that differs from the clients that are registered
    /// and from the kernel. The line "fix:" has the environment variable or option to set. A wrong conclusion
    /// is a failure if the driver of such a GPU is loaded and the application does not prefer dma-bufs, else
    /// a warning. Environment variables are those of iopm.
    #[arg(long)]
    pub(crate) applications: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Check this RDMA device alone
    pub(crate) device: Option<String>,
}

/// Options of lists.
#[derive(Args)]
pub(crate) struct Json {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of commands whose output is for programs.
#[derive(Args)]
pub(crate) struct Output {
    /// Write to this file: a regular one, or that of a link, is replaced at once, when the text is complete; a
    /// device, a pipe, or /dev/stdout is written to
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
