// SPDX-License-Identifier: GPL-2.0

//! A message from one function to another, through queues in their memory.

use super::*;
use crate::bits::put;
use crate::buffer::Buffer;
use crate::caps::Features;
use crate::dma::tests::add;
use crate::ifc::mkc;
use crate::mkey::{self, tests::PD};
use crate::port::Gid;
use crate::qp::tests::queue_pair;
use crate::qp::{Ring, State, BLOCK};

const QPN: u32 = 0x100;
/// The send queue, the doorbell record, and memory for data, of each function.
const QUEUE: u64 = 0x1000;
const RECORD: u64 = 0x2000;
const DATA: u64 = 0x3000;

fn gid(id: u8) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[0] = 0xfe;
    gid[15] = id + 1;
    gid
}

/// Returns a function with a queue pair that is connected to that of the other one.
fn function(id: u8) -> Function {
    let mut function = Function::new(id.into(), Features::default());
    function.dma.set_master(true);
    add(&function.dma, QUEUE, 0x3000);
    function.port.gids[0] = Gid {
        gid: gid(id),
        ..Gid::default()
    };
    let mut qp = queue_pair(Service::Rc, PD);
    qp.number = QPN;
    qp.state = State::Rts;
    qp.set_dbr(RECORD);
    qp.send = Ring {
        buffer: Buffer::new(&QUEUE.to_be_bytes(), 12, 0),
        log_size: 4,
        stride: BLOCK,
        next: 0,
    };
    for (field, value) in [
        (qpc::remote_qpn, u64::from(QPN)),
        (qpc::rwe, 1),
        (qpc::rre, 1),
        (qpc::rae, 1),
    ] {
        field.set(&mut qp.context, value);
    }
    let path = qpc::primary_address_path.rest_mut(&mut qp.context);
    put(path, ads::rgid_rip.byte(), &gid(1 - id));
    function.hca.qps.insert(QPN, qp);
    function
}

/// Adds a key on the data of a function.
fn key(function: &mut Function, len: u64) -> u32 {
    let mkey = mkey::tests::mkey(0, len, 12, &[DATA | 3]);
    mkey::tests::key(function.hca.mkeys.add(mkey))
}

/// Two functions, with a key each, of which the second one has `len` bytes.
fn fabric(len: u64) -> (Fabric, u32, u32) {
    let (mut a, mut b) = (function(0), function(1));
    let (local, remote) = (key(&mut a, 0x1000), key(&mut b, len));
    a.dma.write(DATA, b"twelve bytes").unwrap();
    (Fabric::new(vec![a, b]), local, remote)
}

/// Posts a work request of one block on function 0, and has it done.
fn post(fabric: &mut Fabric, opcode: u8, remote: (u64, u32), more: &[u8], local: u32) {
    let bytes = if more.is_empty() { 12 } else { 8 };
    post_bytes(fabric, opcode, remote, more, (local, bytes));
}

fn post_bytes(fabric: &mut Fabric, opcode: u8, remote: (u64, u32), more: &[u8], from: (u32, u32)) {
    let (local, bytes) = from;
    let function = &mut fabric.functions[0];
    let index = function.hca.qps[&QPN].send.next;
    let mut wqe = vec![0; BLOCK as usize];
    let len = 32 + more.len() + 16;
    put(
        &mut wqe,
        0,
        &(u32::from(index) << 8 | u32::from(opcode)).to_be_bytes(),
    );
    put(&mut wqe, 4, &(QPN << 8 | (len / 16) as u32).to_be_bytes());
    put(&mut wqe, 16, &remote.0.to_be_bytes());
    put(&mut wqe, 24, &remote.1.to_be_bytes());
    put(&mut wqe, 32, more);
    let at = 32 + more.len();
    put(&mut wqe, at, &bytes.to_be_bytes());
    put(&mut wqe, at + 4, &local.to_be_bytes());
    function
        .dma
        .write(QUEUE + u64::from(index) * BLOCK, &wqe)
        .unwrap();
    let producer = u32::from(index + 1).to_be_bytes();
    function.dma.write(RECORD + 4, &producer).unwrap();
    function.wake(QPN);
    while fabric.work() {}
}

fn data(fabric: &Fabric, f: usize, at: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    fabric.functions[f].dma.read(DATA + at, &mut data).unwrap();
    data
}

fn states(fabric: &Fabric) -> [State; 2] {
    [state(fabric, 0), state(fabric, 1)]
}

fn state(fabric: &Fabric, f: usize) -> State {
    fabric.functions[f].hca.qps[&QPN].state
}

#[test]
fn a_write_past_the_end_fails_at_both_ends() {
    let (mut fabric, local, remote) = fabric(0x10b);
    post(&mut fabric, opcode::WRITE, (0x100, remote), &[], local);
    assert_eq!(data(&fabric, 1, 0x100, 12), [0; 12]);
    assert_eq!(states(&fabric), [State::Error, State::Error]);
}

#[test]
fn a_write_that_the_responder_does_not_permit_fails() {
    let (mut fabric, local, remote) = fabric(0x1000);
    let other = fabric.functions[1].hca.qps.get_mut(&QPN).unwrap();
    qpc::rwe.set(&mut other.context, 0);
    post(&mut fabric, opcode::WRITE, (0, remote), &[], local);
    assert_eq!(data(&fabric, 1, 0, 12), [0; 12]);
    assert_eq!(state(&fabric, 0), State::Error);
}

#[test]
fn a_key_of_the_requester_is_no_key_of_the_responder() {
    let (mut fabric, local, remote) = fabric(0x1000);
    fabric.functions[1].hca.mkeys.remove(remote >> 8);
    post(&mut fabric, opcode::WRITE, (0, remote), &[], local);
    assert_eq!(state(&fabric, 0), State::Error);
}

#[test]
fn a_bad_local_key_does_not_harm_the_responder() {
    let (mut fabric, local, remote) = fabric(0x1000);
    post(&mut fabric, opcode::WRITE, (0, remote), &[], local + 1);
    assert_eq!(states(&fabric), [State::Error, State::Rts]);
}

/// Has the second function free a key by a work request.
fn free(fabric: &mut Fabric, key: u32) {
    let function = &mut fabric.functions[1];
    let mut wqe = [0; 192];
    put(&mut wqe, 0, &u32::from(opcode::UMR).to_be_bytes());
    put(&mut wqe, 4, &(QPN << 8 | 12).to_be_bytes());
    put(&mut wqe, 12, &key.to_be_bytes());
    put(&mut wqe, 24, &(1u64 << 29).to_be_bytes());
    mkc::free.set(&mut wqe[64..], 1);
    function.dma.write(QUEUE, &wqe).unwrap();
    function.dma.write(RECORD + 4, &3u32.to_be_bytes()).unwrap();
    function.wake(QPN);
    while fabric.work() {}
}

/// The moment between the translation of a packet and its bytes: what takes the key away then is not
/// done before the bytes are written, and they are the start of the message.
#[test]
fn a_key_is_not_free_before_a_translated_packet_is_written() {
    let (mut fabric, local, remote) = fabric(0x1000);
    let function = &mut fabric.functions[1];
    let mut out = crate::command::Reply::new(16);
    let pd = function.basic_command(crate::ifc::op::ALLOC_PD, &[0; 16], &mut out);
    assert!(pd.unwrap().is_ok());
    let mkey = function.hca.mkeys.get_mut(remote >> 8).unwrap();
    mkey.set(mkc::umr_en, 1);
    function.inject.packets.after = Some(1);
    fabric.functions[0].dma.write(DATA, &[7; 300]).unwrap();
    post_bytes(
        &mut fabric,
        opcode::WRITE,
        (0x100, remote),
        &[],
        (local, 300),
    );
    let written = |fabric: &Fabric| {
        data(fabric, 1, 0x100, 300)
            .iter()
            .filter(|byte| **byte == 7)
            .count()
    };
    assert_eq!(written(&fabric), 128);
    assert!(fabric.functions[1].in_flight(remote >> 8));
    assert!(fabric.functions[0].in_flight(local >> 8));
    free(&mut fabric, remote);
    let done = |fabric: &Fabric| fabric.functions[1].hca.qps[&QPN].send.next == 3;
    assert!(!done(&fabric));
    assert_eq!(written(&fabric), 128);
    fabric.functions[1].inject.packets.after = None;
    fabric.wake_held();
    while fabric.work() {}
    // The packet in flight, and none after it.
    assert_eq!(written(&fabric), 256);
    assert_eq!(states(&fabric), [State::Error, State::Error]);
    assert!(!fabric.functions[1].in_flight(remote >> 8));
}

#[test]
fn pairs_that_differ_in_psn_or_mtu_have_no_connection() {
    for field in [qpc::next_rcv_psn, qpc::mtu] {
        let (mut fabric, local, remote) = fabric(0x1000);
        let other = fabric.functions[1].hca.qps.get_mut(&QPN).unwrap();
        field.set(&mut other.context, 3);
        post(&mut fabric, opcode::WRITE, (0, remote), &[], local);
        assert_eq!(data(&fabric, 1, 0, 12), [0; 12]);
        assert_eq!(state(&fabric, 1), State::Rts);
    }
}

#[test]
fn an_opcode_that_is_not_one_fails() {
    let (mut fabric, local, remote) = fabric(0x1000);
    post(&mut fabric, 0x3f, (0, remote), &[], local);
    assert_eq!(state(&fabric, 0), State::Error);
}

#[test]
fn without_an_answer_it_is_tried_again_and_then_fails() {
    let (mut fabric, local, remote) = fabric(0x1000);
    let qp = fabric.functions[0].hca.qps.get_mut(&QPN).unwrap();
    ads::ack_timeout.set(qpc::primary_address_path.rest_mut(&mut qp.context), 1);
    qpc::retry_count.set(&mut qp.context, 2);
    fabric.functions[1].hca.qps.get_mut(&QPN).unwrap().state = State::Init;
    post(&mut fabric, opcode::WRITE, (0, remote), &[], local);
    assert_eq!(state(&fabric, 0), State::Rts);
    let end = Instant::now() + Duration::from_secs(10);
    while state(&fabric, 0) == State::Rts && Instant::now() < end {
        fabric.tick();
        fabric.work();
    }
    assert_eq!(state(&fabric, 0), State::Error);
}
