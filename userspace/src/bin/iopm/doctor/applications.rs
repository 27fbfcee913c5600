// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm doctor --applications: what applications find on this machine, and what they conclude.
//!
//! applications.json has the probes of each application, in its order, and in "wrong" what the application gets
//! wrong. Documentation/applications.rst has the sources that were read, with their versions, and a table that
//! is made of the file. The first probe of a way with a verdict decides; if none has one, the verdict is no.

use super::{probes::*, *};

#[derive(Deserialize)]
struct Table {
    gpus: BTreeMap<String, Gpu>,
    /// Where RCCL looks for the configuration of the kernel {release}, but for /proc/config.gz.
    configs: Vec<String>,
    applications: Vec<Application>,
}

#[derive(Deserialize)]
struct Gpu {
    name: String,
    /// Exists while its driver is loaded.
    driver: String,
    clients: Vec<String>,
}

#[derive(Deserialize)]
struct Application {
    name: String,
    gpu: String,
    probes: Vec<Probe>,
}

#[derive(Deserialize)]
struct Probe {
    /// How the application gets at memory without a copy through the host: peer memory, dma-bufs.
    way: String,
    look: Look,
    /// The outcome that decides nothing. Otherwise what is found means yes, and what is missing no.
    undecided: Option<Outcome>,
    /// If the verdict is wrong.
    #[serde(default)]
    remedy: String,
}

/// What an application concludes of a way.
struct Conclusion<'a> {
    /// None: undecided.
    answer: Option<bool>,
    /// False: a probe could not look.
    known: bool,
    /// The probe that decided, or the last one.
    by: &'a Probe,
}

impl<'a> Conclusion<'a> {
    /// Probes a way; `None` if the application does not know it.
    fn of(probes: &'a [Probe], way: &str, mut look: impl FnMut(&Look) -> Outcome) -> Option<Self> {
        let mut of_way = probes.iter().filter(|probe| probe.way == way).peekable();
        let mut conclusion = Self { answer: None, known: true, by: of_way.peek()? };
        for probe in of_way {
            conclusion.by = probe;
            let outcome = look(&probe.look);
            conclusion.known &= outcome != Outcome::NotKnown;
            let is_answer = matches!(outcome, Outcome::Found | Outcome::Missing);
            if is_answer && probe.undecided != Some(outcome) {
                conclusion.answer = Some(outcome == Outcome::Found);
                break;
            }
        }
        Some(conclusion)
    }
}

/// Compares with the clients. Where dma-bufs are usable they are preferred to peer memory, so that is no
/// failure.
fn compare_with_clients(of: &Conclusion<'_>, dma_bufs: bool, gpu: &Gpu, found: &mut Findings<'_>) {
    let client = gpu.clients.iter().find(|client| sys::exists(format!("{PEERS}/{client}")));
    let driver = sys::exists(&gpu.driver);
    let wrong = match (of.answer == Some(true), client) {
        (true, None) => {
            let without = if driver { "" } else { " (no driver of such a GPU is loaded)" };
            let of = &gpu.name;
            format!("no client for memory of {of} is registered, so ibv_reg_mr() of it fails{without}")
        }
        (false, Some(client)) => format!("the client {client} is registered, so peer memory works"),
        _ => return,
    };
    let verdict = if driver && !dma_bufs { Verdict::Fail } else { Verdict::Warn };
    found.add(verdict, &of.by.remedy, format!("wrong: {wrong}"));
}

/// Linux 7.1 has removed the option: dma-bufs always do what it allowed.
fn compare_with_kernel(of: &Conclusion<'_>, prober: &Prober<'_>, found: &mut Findings<'_>) {
    let version = prober.machine.release.version;
    let of_kernel = matches!(of.by.look, Look::BootConfig(_) | Look::AnyConfig(_) | Look::AllSymbols(_));
    let p2pdma = || prober.look(&Look::AllSymbols(vec!["pci_p2pdma".into()])).0 == Outcome::Found;
    if of.answer != Some(true) && of_kernel && version >= (7, 1) && p2pdma() {
        let ((major, minor), option) = (version, "CONFIG_DMABUF_MOVE_NOTIFY");
        let why = "as kernels from 7.1 on always do what it allowed";
        warn!(found, &of.by.remedy, "wrong: Linux {major}.{minor} has no {option}, {why}");
    }
}

pub(super) fn check(machine: &Machine, found: &mut Findings<'_>) -> Result<()> {
    let table: Table = serde_json::from_str(include_str!("applications.json"))?;
    let prober = Prober::new(machine, &table.configs);
    for application in &table.applications {
        let Some(gpu) = table.gpus.get(&application.gpu) else { continue };
        found.area = format!("{}: memory of {}", application.name, gpu.name);
        let mut look = |look: &Look| {
            let (outcome, text) = prober.look(look);
            // What the probe before has found is not reported again.
            if found.list.last().is_none_or(|last| last.text != text || last.area != found.area) {
                let verdict = if outcome == Outcome::NotKnown { Verdict::Unknown } else { Verdict::Ok };
                found.add(verdict, "", text);
            }
            outcome
        };
        let [by_dma_buf, by_address] =
            ["dma-bufs", "peer memory"].map(|way| Conclusion::of(&application.probes, way, &mut look));
        let ways = [(&by_address, "peer memory usable"), (&by_dma_buf, "dma-bufs usable")];
        let concluded = || ways.iter().filter_map(|(of, text)| Some((of.as_ref()?, *text)));
        let is_unknown = concluded().any(|(of, _)| of.answer != Some(false) && !of.known);
        let usable: Vec<_> =
            concluded().filter(|(of, _)| of.answer == Some(true) && of.known).map(|(_, text)| text).collect();
        let text = match (&usable[..], is_unknown) {
            ([], false) => "staging through the host, or an error".into(),
            ([], true) => "peer memory not usable".into(),
            (usable, _) => usable.join(", "),
        };
        match is_unknown {
            true => unknown!(found, "", "concludes: {text}, dma-bufs not known"),
            false => ok!(found, "concludes: {text}"),
        }
        if let Some(of) = &by_address {
            compare_with_clients(of, usable.contains(&"dma-bufs usable"), gpu, found);
        }
        if let Some(of) = &by_dma_buf {
            compare_with_kernel(of, &prober, found);
        }
    }
    Ok(())
}
