// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm doctor --applications: what applications find on this machine, and what they conclude.
//!
//! applications.json has the probes of each application, in its order. The sources that were read, with their
//! versions, are in Documentation/applications.rst, which scripts/static compares with the table. The first
//! probe of a way with a verdict decides; if none has one, the verdict is no.

use super::{
    probes::{Look, Outcome, Prober},
    *,
};
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Table {
    gpus: BTreeMap<String, Gpu>,
    applications: Vec<Application>,
}

/// Whose memory an application registers.
#[derive(Deserialize)]
struct Gpu {
    name: String,
    /// Exists while its driver is loaded.
    driver: String,
    /// The names that its clients have.
    clients: Vec<String>,
}

#[derive(Deserialize)]
struct Application {
    name: String,
    gpu: String,
    probes: Vec<Probe>,
}

/// How an application gets at memory without a copy through the host.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
enum Way {
    #[serde(rename = "peer memory")]
    ByAddress,
    #[serde(rename = "dma-bufs")]
    ByDmaBuf,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Undecided,
    Yes,
    No,
}

#[derive(Deserialize)]
struct Probe {
    way: Way,
    look: Look,
    /// Yes if none is given.
    found: Option<Answer>,
    /// No if none is given.
    missing: Option<Answer>,
    /// If the verdict is wrong.
    remedy: Option<String>,
}

/// What an application concludes of a way.
struct Conclusion<'a> {
    answer: Answer,
    /// False: a probe could not look.
    known: bool,
    /// The probe that decided, or the last one.
    by: &'a Probe,
}

impl<'a> Conclusion<'a> {
    /// Probes a way; `None` if the application does not know it.
    fn of(probes: &'a [Probe], way: Way, look: &mut impl FnMut(&Look) -> Outcome) -> Option<Self> {
        let mut of_way = probes.iter().filter(|probe| probe.way == way).peekable();
        let mut conclusion = Self { answer: Answer::Undecided, known: true, by: of_way.peek()? };
        for probe in of_way {
            conclusion.by = probe;
            match look(&probe.look) {
                Outcome::Found => conclusion.answer = probe.found.unwrap_or(Answer::Yes),
                Outcome::Missing => conclusion.answer = probe.missing.unwrap_or(Answer::No),
                Outcome::NothingThere => {}
                Outcome::NotKnown => conclusion.known = false,
            }
            if conclusion.answer != Answer::Undecided {
                break;
            }
        }
        Some(conclusion)
    }

    fn is_usable(&self) -> bool {
        self.answer == Answer::Yes && self.known
    }

    fn is_unknown(&self) -> bool {
        self.answer != Answer::No && !self.known
    }

    fn wrong(&self, verdict: Verdict, text: String, found: &mut Findings) {
        found.add(verdict, format!("wrong: {text}"), self.by.remedy.clone().unwrap_or_default());
    }
}

fn conclude(by_address: Option<&Conclusion<'_>>, by_dma_buf: Option<&Conclusion<'_>>, found: &mut Findings) {
    let ways = [(by_address, "peer memory usable"), (by_dma_buf, "dma-bufs usable")];
    let usable = ways.iter().filter(|(way, _)| way.is_some_and(Conclusion::is_usable));
    let text = usable.map(|(_, text)| *text).collect::<Vec<_>>().join(", ");
    let unknown = ways.iter().any(|(way, _)| way.is_some_and(Conclusion::is_unknown));
    match (text.as_str(), unknown) {
        ("", false) => found.ok("concludes: staging through the host, or an error"),
        ("", true) => found.unknown("concludes: peer memory not usable, dma-bufs not known", ""),
        (text, false) => found.ok(format!("concludes: {text}")),
        (text, true) => found.unknown(format!("concludes: {text}, dma-bufs not known"), ""),
    }
}

/// Compares with the clients. Where dma-bufs are usable they are preferred to peer memory, so that is no
/// failure.
fn compare_with_clients(by: &Conclusion<'_>, dma_bufs: bool, gpu: &Gpu, found: &mut Findings) {
    let client = gpu.clients.iter().find(|client| sys::exists(format!("{PEERS}/{client}")));
    let driver = sys::exists(&gpu.driver);
    let verdict = if driver && !dma_bufs { Verdict::Fail } else { Verdict::Warn };
    match (by.answer, client) {
        (Answer::Yes, None) => {
            let without = if driver { "" } else { " (no driver of such a GPU is loaded)" };
            let of = &gpu.name;
            let text =
                format!("no client for memory of {of} is registered, so ibv_reg_mr() of it fails{without}");
            by.wrong(verdict, text, found);
        }
        (Answer::No | Answer::Undecided, Some(client)) => {
            by.wrong(verdict, format!("the client {client} is registered, so peer memory works"), found);
        }
        _ => {}
    }
}

/// Linux 7.1 has removed the option: dma-bufs always do what it allowed.
fn compare_with_kernel(by: &Conclusion<'_>, prober: &Prober<'_>, version: (u32, u32), found: &mut Findings) {
    let of_kernel = matches!(by.by.look, Look::BootConfig(_) | Look::AnyConfig(_) | Look::AllSymbols(_));
    let p2pdma = Look::AllSymbols(vec!["pci_p2pdma".into()]);
    if by.answer != Answer::Yes && of_kernel && version >= (7, 1) && prober.look(&p2pdma).0 == Outcome::Found
    {
        let (major, minor) = version;
        let text = format!(
            "Linux {major}.{minor} has no CONFIG_DMABUF_MOVE_NOTIFY, as kernels from 7.1 on always do what it allowed"
        );
        by.wrong(Verdict::Warn, text, found);
    }
}

/// Reports all applications.
pub(super) fn check(machine: &Machine, found: &mut Findings) -> Result<()> {
    let table: Table = serde_json::from_str(include_str!("applications.json"))?;
    let prober = Prober::new(machine);
    for application in &table.applications {
        let Some(gpu) = table.gpus.get(&application.gpu) else { continue };
        found.area = format!("{}: memory of {}", application.name, gpu.name);
        let mut look = |look: &Look| {
            let (outcome, text) = prober.look(look);
            // What the probe before has found is not reported again.
            if found.list.last().is_none_or(|last| last.text != text || last.area != found.area) {
                let verdict = if outcome == Outcome::NotKnown { Verdict::Unknown } else { Verdict::Ok };
                found.add(verdict, text, "");
            }
            outcome
        };
        let by_dma_buf = Conclusion::of(&application.probes, Way::ByDmaBuf, &mut look);
        let by_address = Conclusion::of(&application.probes, Way::ByAddress, &mut look);
        conclude(by_address.as_ref(), by_dma_buf.as_ref(), found);
        let dma_bufs = by_dma_buf.as_ref().is_some_and(Conclusion::is_usable);
        if let Some(by) = by_address {
            compare_with_clients(&by, dma_bufs, gpu, found);
        }
        if let Some(by) = by_dma_buf {
            compare_with_kernel(&by, &prober, machine.release.version, found);
        }
    }
    Ok(())
}
