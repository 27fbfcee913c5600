// SPDX-License-Identifier: GPL-2.0

//! The port: addresses, link state, and the registers that tell of it.

use crate::prelude::*;

const UP: u64 = 1;
const DOWN: u64 = 2;
const ACTIVE: u64 = 4;
const LINK_UP: u64 = 5;
/// The capabilities of an InfiniBand port: automatic migration, trap, extended speeds, and others of
/// a ConnectX.
const CAPABILITIES: u64 = 0x2650_e848;
/// Those that the driver may set, as when an agent of the host begins to serve a class: the connection
/// manager, SNMP, device management, a class of a vendor.
const OF_AGENTS: u64 = 1 << 16 | 1 << 17 | 1 << 19 | 1 << 20;
const PKEYS: usize = 128;
/// The default partition, of which all ports are full members.
pub const FULL_MEMBER: u16 = 0xffff;
/// The default prefix of a subnet, and the LID of its manager; those of the ports are below.
const PREFIX: u64 = 0xfe80_0000_0000_0000;
const MANAGER_LID: u64 = 0x100;

const PTYS: u16 = 0x5004;
const PMTU: u16 = 0x5003;
const PAOS: u16 = 0x5006;
const PVLC: u16 = 0x500f;

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Gid {
    pub gid: [u8; 16],
    /// 0 is RoCE version 1, 2 is version 2.
    pub version: u8,
    pub ipv6: bool,
}

pub struct Port {
    pub infiniband: bool,
    pub mac: [u8; 6],
    pub guid: u64,
    /// Of InfiniBand, as the subnet manager has set it.
    pub lid: u16,
    /// Of Ethernet: what the driver has set.
    pub gids: Vec<Gid>,
    admin_up: bool,
    mtu: u64,
    roce: bool,
}

impl Port {
    pub fn new(id: usize, infiniband: bool) -> Self {
        let mac = [0x02, 0x0c, 0x0e, 0, 0, id as u8 + 1];
        Self {
            infiniband,
            mac,
            guid: 0x0200_c0ff_fe00_0100 | (id as u64 + 1),
            lid: id as u16 + 1,
            gids: vec![Gid::default(); 128],
            admin_up: true,
            mtu: 1522,
            roce: false,
        }
    }

    pub fn gid(&self, index: usize) -> Gid {
        if !self.infiniband {
            return self.gids.get(index).copied().unwrap_or_default();
        }
        let mut gid = Gid::default();
        if index == 0 {
            gid.gid[..8].copy_from_slice(&PREFIX.to_be_bytes());
            gid.gid[8..].copy_from_slice(&self.guid.to_be_bytes());
        }
        gid
    }

    pub fn has_gid(&self, gid: &[u8]) -> bool {
        let count = if self.infiniband { 1 } else { self.gids.len() };
        gid.iter().any(|byte| *byte != 0) && (0..count).any(|index| self.gid(index).gid == gid)
    }
}

impl Function {
    /// Executes a command about the port. Returns `None` if it is not one.
    pub fn port_command(&mut self, opcode: u16, input: &[u8], out: &mut [u8]) -> Option<Answer> {
        match opcode {
            op::QUERY_HCA_VPORT_CONTEXT => {
                let context = query_hca_vport_context_out::hca_vport_context.rest_mut(out);
                self.hca_vport_context(context);
            }
            op::QUERY_HCA_VPORT_GID => {
                let index = query_hca_vport_gid_in::gid_index.get(input) as usize;
                let gid = self.port.gid(index).gid;
                query_hca_vport_gid_out::gids_num.set(out, 1);
                put(out, query_hca_vport_gid_out::gid.byte(), &gid);
            }
            op::QUERY_HCA_VPORT_PKEY => {
                // The first entry of the table alone is used; one entry, or all of them.
                let index = be16(input, 14);
                let pkeys = query_hca_vport_pkey_out::pkey.rest_mut(out);
                if index == 0 || index as usize >= PKEYS {
                    put(pkeys, 2, &FULL_MEMBER.to_be_bytes());
                }
            }
            op::QUERY_VPORT_STATE => {
                query_vport_state_out::max_tx_speed.set(out, 1000);
                query_vport_state_out::admin_state.set(out, UP);
                query_vport_state_out::state.set(out, self.port.admin_up.into());
            }
            op::QUERY_NIC_VPORT_CONTEXT => self.query_nic_vport(out),
            op::MODIFY_NIC_VPORT_CONTEXT => self.modify_nic_vport(input),
            op::SET_ROCE_ADDRESS => return Some(self.set_roce_address(input)),
            op::ACCESS_REG => self.access_register(input, out),
            // Management datagrams to the device itself, and attributes that nothing depends on.
            op::MAD_IFC => {}
            _ => return None,
        }
        Some(Ok(()))
    }

    fn hca_vport_context(&self, context: &mut [u8]) {
        let values = [
            (hca_vport_context::port_physical_state, LINK_UP),
            (hca_vport_context::vport_state, ACTIVE),
            (hca_vport_context::has_smi, 1),
            (hca_vport_context::system_image_guid, self.port.guid),
            (hca_vport_context::port_guid, self.port.guid),
            (hca_vport_context::node_guid, self.port.guid),
            (hca_vport_context::cap_mask1, CAPABILITIES),
            // What the driver may change, without an effect.
            (hca_vport_context::cap_mask1_field_select, OF_AGENTS),
            (hca_vport_context::lid, self.port.lid.into()),
            (hca_vport_context::subnet_timeout, 18),
            (hca_vport_context::sm_lid, MANAGER_LID),
        ];
        set(context, &values);
    }

    fn query_nic_vport(&self, out: &mut [u8]) {
        let context = query_nic_vport_context_out::nic_vport_context.rest_mut(out);
        let values = [
            (nic_vport_context::roce_en, u64::from(self.port.roce)),
            (nic_vport_context::mtu, self.port.mtu),
            (nic_vport_context::system_image_guid, self.port.guid),
            (nic_vport_context::port_guid, self.port.guid),
            (nic_vport_context::node_guid, self.port.guid),
        ];
        set(context, &values);
        let mac = nic_vport_context::permanent_address.rest_mut(context);
        put(mac, 2, &self.port.mac);
    }

    fn modify_nic_vport(&mut self, input: &[u8]) {
        let select = modify_nic_vport_context_in::field_select.slice(input);
        let context = modify_nic_vport_context_in::nic_vport_context.rest(input);
        if modify_nic_vport_field_select::roce_en.is_set(select) {
            self.port.roce = nic_vport_context::roce_en.is_set(context);
        }
    }

    fn set_roce_address(&mut self, input: &[u8]) -> Answer {
        let index = set_roce_address_in::roce_address_index.get(input) as usize;
        let layout = set_roce_address_in::roce_address.rest(input);
        let Some(entry) = self.port.gids.get_mut(index) else {
            fail!(BAD_RES, "no entry {index} of the table");
        };
        put(&mut entry.gid, 0, layout);
        entry.version = roce_addr_layout::roce_version.get(layout) as u8;
        entry.ipv6 = roce_addr_layout::roce_l3_type.is_set(layout);
        Ok(())
    }

    fn access_register(&mut self, input: &[u8], out: &mut [u8]) {
        let register = access_register_in::register_id.get(input) as u16;
        let write = access_register_in::op_mod.get(input) == 0;
        let data = access_register_in::register_data.rest(input);
        let out = access_register_out::register_data.rest_mut(out);
        put(out, 0, data);
        if write {
            match register {
                PMTU => self.port.mtu = pmtu_reg::admin_mtu.get(data),
                PAOS => self.set_admin_state(paos_reg::admin_status.get(data) == UP),
                _ => {}
            }
            return;
        }
        let infiniband = self.port.infiniband;
        let max_mtu = if infiniband { 4096 } else { 9978 };
        let mtu = if infiniband { max_mtu } else { self.port.mtu };
        let state = if self.port.admin_up { UP } else { DOWN };
        let values: &[(Field, u64)] = match register {
            // Four lanes; EDR.
            PTYS if infiniband => &[
                (ptys_reg::ib_link_width_oper, 2),
                (ptys_reg::ib_proto_oper, 0x20),
            ],
            // 100GBASE-CR4.
            PTYS => &[
                (ptys_reg::eth_proto_capability, 1 << 20),
                (ptys_reg::eth_proto_admin, 1 << 20),
                (ptys_reg::eth_proto_oper, 1 << 20),
            ],
            PMTU => &[
                (pmtu_reg::max_mtu, max_mtu),
                (pmtu_reg::admin_mtu, mtu),
                (pmtu_reg::oper_mtu, mtu),
            ],
            PAOS => &[
                (paos_reg::admin_status, state),
                (paos_reg::oper_status, state),
            ],
            PVLC => &[(pvlc_reg::vl_hw_cap, 4)],
            _ => &[],
        };
        set(out, values);
    }

    fn set_admin_state(&mut self, up: bool) {
        if self.port.admin_up == up {
            return;
        }
        self.port.admin_up = up;
        const PORT_DOWN: u8 = 1;
        const PORT_ACTIVE: u8 = 4;
        let mut data = [0; 28];
        data[8] = 0x10;
        let state = if up { PORT_ACTIVE } else { PORT_DOWN };
        self.post_event(event::PORT_CHANGE, state, &data);
    }
}
