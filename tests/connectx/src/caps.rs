// SPDX-License-Identifier: GPL-2.0

//! The capabilities that are announced. What is not here is 0: the driver does without.

use crate::ifc::per_protocol_networking_offload_caps as eth_cap;
use crate::prelude::*;

const GENERAL: u64 = 0;
const ETHERNET: u64 = 1;
const ODP: u64 = 2;
const ATOMIC: u64 = 3;
const ROCE: u64 = 4;
const FLOW_TABLE: u64 = 7;

/// The capabilities are after the head of the output, and of the input that sets them.
const AT: usize = 16;
const BYTES: usize = 4096;
/// Log base 2 of the pages of 4 KiB in the largest page of a host, of 64 KiB.
const MAX_LOG_UAR_PAGE: u32 = 4;

/// Of all ports: what mlx5_core and mlx5_ib ask for.
const GENERAL_CAPS: &[(Field, u64)] = &[
    (cmd_hca_cap::page_request_disable, 1),
    (cmd_hca_cap::log_max_srq_sz, 15),
    (cmd_hca_cap::log_max_qp_sz, 15),
    (cmd_hca_cap::log_max_qp, 16),
    (cmd_hca_cap::log_max_srq, 16),
    (cmd_hca_cap::log_max_cq_sz, 20),
    (cmd_hca_cap::log_max_cq, 16),
    (cmd_hca_cap::log_max_mkey, 20),
    (cmd_hca_cap::log_max_eq, 6),
    (cmd_hca_cap::max_indirection, MAX_INDIRECTION as u64),
    (cmd_hca_cap::fixed_buffer_size, 1),
    (cmd_hca_cap::log_max_mrw_sz, 40),
    (cmd_hca_cap::log_max_klm_list_size, 16),
    (cmd_hca_cap::umr_extended_translation_offset, 1),
    (cmd_hca_cap::null_mkey, 1),
    (cmd_hca_cap::log_max_ra_req_qp, 4),
    (cmd_hca_cap::log_max_ra_res_qp, 4),
    (cmd_hca_cap::local_ca_ack_delay, 16),
    (cmd_hca_cap::num_ports, 1),
    (cmd_hca_cap::log_max_msg, 30),
    (cmd_hca_cap::cqe_version, 1),
    (cmd_hca_cap::compact_address_vector, 1),
    (cmd_hca_cap::umr_fence, 1),
    (cmd_hca_cap::atomic, 1),
    (cmd_hca_cap::cq_moderation, 1),
    (cmd_hca_cap::umr_ptr_rlky, 1),
    (cmd_hca_cap::imaicl, 1),
    (cmd_hca_cap::qkv, 1),
    (cmd_hca_cap::pkv, 1),
    // mlx5_ib refuses a device without, and makes an SRQ of it.
    (cmd_hca_cap::xrc, 1),
    (cmd_hca_cap::ud, 1),
    (cmd_hca_cap::rc, 1),
    (cmd_hca_cap::uar_4k, 1),
    (cmd_hca_cap::log_pg_sz, 12),
    (cmd_hca_cap::log_bf_reg_size, 9),
    (cmd_hca_cap::max_wqe_sz_sq, 1024),
    (cmd_hca_cap::max_wqe_sz_rq, 512),
    (cmd_hca_cap::log_max_transport_domain, 16),
    (cmd_hca_cap::log_max_pd, 16),
    (cmd_hca_cap::basic_cyclic_rcv_wqe, 1),
    (cmd_hca_cap::log_max_rmp, 16),
    (cmd_hca_cap::log_max_rq, 16),
    (cmd_hca_cap::log_max_sq, 16),
    (cmd_hca_cap::max_num_eqs, 32),
    (cmd_hca_cap::device_frequency_khz, TIMER_KHZ),
    (cmd_hca_cap::num_of_uars_per_page, 1),
    (cmd_hca_cap::relaxed_ordering_write, 1),
    (cmd_hca_cap::relaxed_ordering_read, 1),
    (cmd_hca_cap::relaxed_ordering_write_umr, 1),
    (cmd_hca_cap::relaxed_ordering_read_umr, 1),
    // User contexts, with access to raw commands for those that may have it.
    (cmd_hca_cap::uctx_cap, 2),
    (cmd_hca_cap::log_max_uctx, 8),
];

const INFINIBAND_CAPS: &[(Field, u64)] = &[
    // Else mlx5_ib asks by management datagrams.
    (cmd_hca_cap::ib_virt, 1),
    // 8 and 128 entries.
    (cmd_hca_cap::gid_table_size, 0),
    (cmd_hca_cap::pkey_table_size, 0),
    (cmd_hca_cap::sctr_data_cqe, 0),
];

/// Of an Ethernet port: what mlx5_core asks for its network device.
const ETHERNET_CAPS: &[(Field, u64)] = &[
    (cmd_hca_cap::port_type, 1),
    (cmd_hca_cap::eth_net_offloads, 1),
    (cmd_hca_cap::roce, 1),
    (cmd_hca_cap::nic_flow_table, 1),
    (cmd_hca_cap::vport_counters, 1),
    (cmd_hca_cap::max_qp_cnt, 64),
    (cmd_hca_cap::max_tc, 1),
    (cmd_hca_cap::log_max_tir, 16),
    (cmd_hca_cap::log_max_rqt, 16),
    (cmd_hca_cap::log_max_rqt_size, 8),
    (cmd_hca_cap::log_max_wq_sz, 15),
    (cmd_hca_cap::log_max_vlan_list, 8),
    (cmd_hca_cap::log_max_current_mc_list, 8),
    (cmd_hca_cap::log_max_current_uc_list, 8),
];

const ETHERNET_OFFLOAD_CAPS: &[(Field, u64)] = &[
    (eth_cap::csum_cap, 1),
    (eth_cap::vlan_cap, 1),
    (eth_cap::self_lb_en_modifiable, 1),
    (eth_cap::max_lso_cap, 16),
    (eth_cap::wqe_inline_mode, 2),
    (eth_cap::rss_ind_tbl_cap, 7),
];

const ROCE_CAPS: &[(Field, u64)] = &[
    // Versions 1 and 2, over IPv4 and IPv6.
    (roce_cap::roce_version, 5),
    (roce_cap::l3_type, 6),
    (roce_cap::r_roce_min_src_udp_port, 0xc000),
    (roce_cap::roce_address_table_size, 128),
];

const ATOMIC_CAPS: &[(Field, u64)] = &[
    // Values of 8 bytes are in the byte order of the host.
    (atomic_caps::atomic_req_8B_endianness_mode, 1),
    (atomic_caps::supported_atomic_req_8B_endianness_mode_1, 1),
    // Compare and swap, fetch and add.
    (atomic_caps::atomic_operations, 3),
    (atomic_caps::atomic_size_qp, 8),
];

const FLOW_TABLE_CAPS: &[(Field, u64)] = &[
    (flow_table_prop_layout::ft_support, 1),
    (flow_table_prop_layout::flow_modify_en, 1),
    (flow_table_prop_layout::modify_root, 1),
    (flow_table_prop_layout::identified_miss_table_mode, 1),
    (flow_table_prop_layout::log_max_ft_size, 23),
    (flow_table_prop_layout::max_ft_level, 64),
];

/// Page faults for connected transports, by memory key and address.
const ODP_CAPS: &[(Field, u64)] = &[
    (odp_cap::mem_page_fault, 1),
    (FAULTS.with(odp_scheme_cap::page_prefetch), 1),
    (RC.with(odp_per_transport_service_cap::send), 1),
    (RC.with(odp_per_transport_service_cap::receive), 1),
    (RC.with(odp_per_transport_service_cap::write), 1),
    (RC.with(odp_per_transport_service_cap::read), 1),
    (RC.with(odp_per_transport_service_cap::atomic), 1),
    (RC.with(odp_per_transport_service_cap::srq_receive), 1),
];
const FAULTS: Field = odp_cap::memory_page_fault_scheme_cap;
const RC: Field = FAULTS.with(odp_scheme_cap::rc_odp_caps);

#[derive(Clone, Copy, Default)]
pub struct Features {
    pub infiniband: bool,
    pub no_odp: bool,
}

pub type Set = BTreeMap<u64, Vec<u8>>;

fn announced(kind: u64, features: Features) -> Vec<u8> {
    let mut caps = vec![0; BYTES];
    match kind {
        GENERAL => {
            set(&mut caps, GENERAL_CAPS);
            match features.infiniband {
                true => set(&mut caps, INFINIBAND_CAPS),
                false => set(&mut caps, ETHERNET_CAPS),
            }
            cmd_hca_cap::pg.set(&mut caps, u64::from(!features.no_odp));
        }
        ETHERNET if !features.infiniband => set(&mut caps, ETHERNET_OFFLOAD_CAPS),
        ODP if !features.no_odp => set(&mut caps, ODP_CAPS),
        ATOMIC => set(&mut caps, ATOMIC_CAPS),
        ROCE if !features.infiniband => set(&mut caps, ROCE_CAPS),
        FLOW_TABLE if !features.infiniband => flow_tables(&mut caps),
        _ => {}
    }
    caps
}

fn flow_tables(caps: &mut [u8]) {
    for table in [
        flow_table_nic_cap::flow_table_properties_nic_receive,
        flow_table_nic_cap::flow_table_properties_nic_transmit,
    ] {
        let properties = table.rest_mut(caps);
        set(properties, FLOW_TABLE_CAPS);
        for fields in [
            flow_table_prop_layout::ft_field_support,
            flow_table_prop_layout::ft_field_bitmask_support,
        ] {
            put(fields.rest_mut(properties), 0, &[0xff; 16]);
        }
    }
}

impl Function {
    pub fn query_hca_cap(&mut self, input: &[u8], out: &mut [u8]) -> Answer {
        let mode = query_hca_cap_in::op_mod.get(input);
        let (kind, current) = (mode >> 1, mode & 1 == 1);
        let caps = match self.hca.caps.get(&kind) {
            Some(caps) if current => caps.clone(),
            _ => announced(kind, self.features),
        };
        put(out, AT, &caps);
        Ok(())
    }

    pub fn set_hca_cap(&mut self, input: &[u8]) -> Answer {
        let kind = query_hca_cap_in::op_mod.get(input) >> 1;
        let mut caps = input.get(AT..).unwrap_or_default().to_vec();
        caps.resize(BYTES, 0);
        if kind == ATOMIC {
            // The one field that can be set; the driver leaves the others 0.
            let mode = atomic_caps::atomic_req_8B_endianness_mode;
            let wanted = mode.get(&caps);
            caps = announced(kind, self.features);
            mode.set(&mut caps, wanted);
        }
        if kind == ODP && self.features.no_odp {
            fail!(BAD_PARAM, "on-demand paging is not announced");
        }
        if kind == GENERAL {
            // The driver says how large the pages of its host are.
            let log = cmd_hca_cap::log_uar_page_sz.get32(&caps);
            if log > MAX_LOG_UAR_PAGE {
                fail!(BAD_PARAM, "no such page size");
            }
            self.hca.objects.log_uars = log;
            cmd_hca_cap::num_of_uars_per_page.set(&mut caps, 1 << log);
        }
        self.hca.caps.insert(kind, caps);
        Ok(())
    }
}
