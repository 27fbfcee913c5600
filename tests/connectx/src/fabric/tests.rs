// SPDX-License-Identifier: GPL-2.0

//! A message from one function to another, through queues in their memory.

use super::*;
use crate::function::tests::function;
use crate::mkey::{self, tests::PD};
use crate::qp::tests::queue_pair;
use crate::qp::{Ring, BLOCK};

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
fn end(id: u8) -> Function {
    let mut function = function(QUEUE, 0x3000);
    function.id = id.into();
    function.port.gids[0] = Gid {
        gid: gid(id),
        ..Gid::default()
    };
    let mut qp = queue_pair(Service::Rc, PD);
    qp.number = QPN;
    qp.state = State::Rts;
    qp.dbr = RECORD;
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

fn key(function: &mut Function, len: u64) -> u32 {
    let mkey = mkey::tests::mkey(0, len, 12, &[DATA | 3]);
    mkey::tests::key(function.hca.mkeys.add(mkey))
}

/// Two functions, with a key each, of which the second one has `len` bytes.
fn fabric(len: u64) -> (Fabric, u32, u32) {
    let (mut a, mut b) = (end(0), end(1));
    let (local, remote) = (key(&mut a, 0x1000), key(&mut b, len));
    a.dma.write(DATA, b"twelve bytes").unwrap();
    (
        Fabric {
            functions: vec![a, b],
        },
        local,
        remote,
    )
}

/// Posts a work request of one block on function 0, and has it done.
fn post(fabric: &mut Fabric, opcode: u8, remote: (u64, u32), (local, bytes): (u32, u32)) {
    let function = &mut fabric.functions[0];
    let index = function.hca.qps[&QPN].send.next;
    let mut wqe = [0; BLOCK as usize];
    let head = u32::from(index) << 8 | u32::from(opcode);
    put(&mut wqe, 0, &head.to_be_bytes());
    put(&mut wqe, 4, &(QPN << 8 | 3).to_be_bytes());
    put(&mut wqe, 16, &remote.0.to_be_bytes());
    put(&mut wqe, 24, &remote.1.to_be_bytes());
    put(&mut wqe, 32, &bytes.to_be_bytes());
    put(&mut wqe, 36, &local.to_be_bytes());
    let at = QUEUE + u64::from(index) * BLOCK;
    function.dma.write(at, &wqe).unwrap();
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
    [0, 1].map(|f| fabric.functions[f].hca.qps[&QPN].state)
}

fn responder(fabric: &mut Fabric) -> &mut Qp {
    fabric.functions[1].hca.qps.get_mut(&QPN).unwrap()
}

/// A change before a write, by which it fails or waits, and the states after it.
type Change = fn(&mut Fabric, &mut (u64, u32), &mut u32);

#[test]
fn a_write_that_is_not_in_order_changes_nothing() {
    use State::{Error, Rts};
    const NO_CONNECTION: [State; 2] = [Rts, Rts];
    let changes: [(Change, u8, [State; 2]); 7] = [
        (|_, to, _| to.0 = 0xff5, opcode::WRITE, [Error, Error]),
        (
            |fabric, _, _| qpc::rwe.set(&mut responder(fabric).context, 0),
            opcode::WRITE,
            [Error, Error],
        ),
        (
            |fabric, to, _| drop(fabric.functions[1].hca.mkeys.all.remove(&(to.1 >> 8))),
            opcode::WRITE,
            [Error, Error],
        ),
        // A bad local key does not harm the responder.
        (|_, _, local| *local += 1, opcode::WRITE, [Error, Rts]),
        (|_, _, _| {}, 0x3f, [Error, Rts]),
        (
            |fabric, _, _| qpc::next_rcv_psn.set(&mut responder(fabric).context, 3),
            opcode::WRITE,
            NO_CONNECTION,
        ),
        (
            |fabric, _, _| qpc::mtu.set(&mut responder(fabric).context, 3),
            opcode::WRITE,
            NO_CONNECTION,
        ),
    ];
    for (n, (change, opcode, want)) in changes.into_iter().enumerate() {
        let (mut fabric, mut local, remote) = fabric(0x1000);
        let mut to = (0, remote);
        change(&mut fabric, &mut to, &mut local);
        post(&mut fabric, opcode, to, (local, 12));
        assert_eq!(data(&fabric, 1, 0, 0x1000), [0; 0x1000], "change {n}");
        assert_eq!(states(&fabric), want, "change {n}");
    }
}

/// Returns after what time the queue pair of function 0 fails.
fn fails(fabric: &mut Fabric) -> Duration {
    let start = Instant::now();
    while states(fabric)[0] == State::Rts && start.elapsed() < Duration::from_secs(10) {
        fabric.tick();
        fabric.work();
    }
    assert_eq!(states(fabric)[0], State::Error);
    start.elapsed()
}

#[test]
fn without_an_answer_it_is_tried_again_and_then_fails() {
    let (mut fabric, local, remote) = fabric(0x1000);
    let qp = fabric.functions[0].hca.qps.get_mut(&QPN).unwrap();
    ads::ack_timeout.set(qpc::primary_address_path.rest_mut(&mut qp.context), 1);
    qpc::retry_count.set(&mut qp.context, 2);
    responder(&mut fabric).state = State::Init;
    post(&mut fabric, opcode::WRITE, (0, remote), (local, 12));
    assert_eq!(states(&fabric)[0], State::Rts);
    fails(&mut fabric);
}

#[test]
fn the_receiver_sets_the_time_until_it_is_ready() {
    let times = [0, 2, 3, 12, 27, 31].map(|code| not_ready_time(code).as_micros());
    assert_eq!(times, [655_360, 20, 30, 640, 122_880, 491_520]);
    let (mut fabric, local, remote) = fabric(0x1000);
    let qp = fabric.functions[0].hca.qps.get_mut(&QPN).unwrap();
    qpc::rnr_retry.set(&mut qp.context, 1);
    qpc::min_rnr_nak.set(&mut responder(&mut fabric).context, 27);
    post(&mut fabric, opcode::WRITE_IMM, (0, remote), (local, 12));
    assert!(fails(&mut fabric) >= Duration::from_millis(120));
}
