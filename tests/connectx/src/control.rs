// SPDX-License-Identifier: GPL-2.0

//! What a test asks of the device: a line on one pipe, the answer on another.
//!
//! ```text
//! FUNCTION dead | alive             all reads give ones, and back
//! FUNCTION fatal                    the firmware dies, DMA goes on until a reset
//! FUNCTION fail-umr COUNT           the next UMR work requests fail
//! FUNCTION hold-umr | release-umr   UMR work requests wait
//! FUNCTION held-umr                 fails unless one waits
//! FUNCTION hold-packet N            after N more packets of RDMA to this function, the next one of each
//!                                   queue pair is translated and not written, until release-packets
//! FUNCTION held-packet              fails unless one is
//! FUNCTION fenced                   fails unless a UMR work request or a command waits for such a packet
//! FUNCTION hold-command OPCODE      these commands are executed, and complete at release-commands; those of
//!                                   other slots complete meanwhile
//! FUNCTION held-command             fails unless one is held
//! FUNCTION fail-command OPCODE N    the next N of these commands fail
//! FUNCTION ignore-command OPCODE    these commands are not answered; 0 for none: those that were not get
//!                                   an error now
//! FUNCTION delay-interrupts N       each interrupt comes N microseconds later; less than a second
//! FUNCTION hold-faults | release-faults
//! FUNCTION report                   the bytes of DMA for each memory, also to the log, which gets what is
//!                                   alive as well
//! FUNCTION applications             what applications have, a line for each kind of object
//! FUNCTION queues                   DMA addresses of the rings and doorbell records of applications
//! FUNCTION mkeys                    all keys with their translations, in the answer
//! FUNCTION places                   the same, with what is behind each address instead of it
//! FUNCTION reaches MEMORY...        fails if a key or umem in use reaches the memory (bar-a), or
//!                                   an address at which nothing is mapped
//! FUNCTION refuses PATTERN          what is refused is meant if it has the parts between the `*`
//! FUNCTION refused                  fails with the lines that are not meant, since the last time
//! ```

use crate::prelude::*;

pub fn execute(fabric: &mut Fabric, line: &str) -> String {
    match command(fabric, line) {
        Ok(text) => format!("{text}ok\n"),
        Err(why) => format!("failed: {why}: {line}\n"),
    }
}

fn number(text: Option<&&str>) -> Result<u32, String> {
    let text = *text.ok_or("a number is missing")?;
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|e| e.to_string())
}

fn must(fact: bool, otherwise: &str) -> Result<(), String> {
    fact.then_some(()).ok_or(otherwise.into())
}

fn lines(lines: &[String]) -> String {
    let parts = lines.iter().flat_map(|line| [line.as_str(), "\n"]);
    parts.collect()
}

fn command(fabric: &mut Fabric, line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let which = number(words.first())? as usize;
    let function = fabric.functions.get_mut(which).ok_or("no such function")?;
    match words.get(1).copied().unwrap_or_default() {
        "dead" => function.set_dead(true),
        "alive" => function.set_dead(false),
        "fatal" => function.hca.init.fatal = true,
        "fail-umr" => function.inject.fail_umr = number(words.get(2))?,
        "hold-umr" => function.hold_umr(true),
        "release-umr" => function.hold_umr(false),
        "held-umr" => must(!function.inject.held_umr.is_empty(), "no UMR waits")?,
        "hold-packet" => function.inject.packets = Some(number(words.get(2))?),
        "held-packet" => must(!function.hca.flying.is_empty(), "no packet is held")?,
        "fenced" => {
            let waits = !function.hca.fenced.is_empty() || function.hca.fenced_slots != 0;
            must(waits, "nothing waits for a packet")?;
        }
        "release-packets" => {
            function.inject.packets = None;
            fabric.wake_held();
        }
        "hold-command" => function.inject.hold_command = Some(number(words.get(2))? as u16),
        "held-command" => must(!function.hca.held_commands.is_empty(), "no command is held")?,
        "release-commands" => function.release_commands(),
        "fail-command" => {
            let opcode = number(words.get(2))? as u16;
            function.inject.fail_command = Some((opcode, number(words.get(3))?));
        }
        "ignore-command" => {
            let opcode = number(words.get(2))? as u16;
            function.inject.ignore_command = (opcode != 0).then_some(opcode);
            if opcode == 0 {
                let slots = std::mem::take(&mut function.hca.ignored);
                function.commands(slots, true);
            }
        }
        "delay-interrupts" => {
            // QEMU takes an answer of five seconds for an error.
            let delay = u64::from(number(words.get(2))?);
            must(delay < 1_000_000, "the delay is a second or more")?;
            function.inject.interrupt_delay = Duration::from_micros(delay);
        }
        "hold-faults" => function.hold_page_faults(true),
        "release-faults" => function.hold_page_faults(false),
        "report" => {
            function.report_objects(false);
            return Ok(lines(&function.dma.report()));
        }
        "applications" => return Ok(lines(&function.objects_of(is_application))),
        "queues" => return Ok(lines(&function.queues_of_applications())),
        what @ ("mkeys" | "places") => {
            let keys = function.hca.mkeys.used().filter(|(_, mkey)| !mkey.free());
            let dma = (what == "places").then_some(&function.dma);
            let line = |(index, mkey): (u32, &Mkey)| {
                let key = index << 8 | u32::from(mkey.variant());
                format!("mkey {key:#x}: {}\n", mkey.describe(dma))
            };
            return Ok(keys.map(line).collect());
        }
        "reaches" | "refuses" if words.len() < 3 => return Err("nothing is named".into()),
        "reaches" => {
            let mut names = words[2..].iter();
            names.try_for_each(|name| function.reaches(name))?;
        }
        "refuses" => function.inject.refuses.push(words[2..].join(" ")),
        "refused" => {
            let mut asked = std::mem::take(&mut function.inject.refuses);
            // By another request.
            asked.extend(["injected", "is not answered"].map(String::from));
            let more = log::take_refused(which, &asked);
            if !more.is_empty() {
                let first = more[..more.len().min(10)].join("; ");
                return Err(format!("{} not asked for: {first}", more.len()));
            }
        }
        _ => return Err("no such request".into()),
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::tests::function;

    #[test]
    fn what_is_refused_is_asked_for() {
        let functions = vec![function(0, 0x1000)];
        let mut fabric = Fabric { functions };
        let line = "fn0: QP 0x1: request refused";
        refuse!("{line}");
        refuse!("fn1: of another one");
        let answer = execute(&mut fabric, "0 refused");
        assert!(answer.starts_with(&format!("failed: 1 not asked for: {line}")));
        assert_eq!(execute(&mut fabric, "0 refused"), "ok\n");
        assert_eq!(log::take_refused(1, &[]).len(), 1);
        let asked = "0 refuses QP * request refused";
        assert_eq!(execute(&mut fabric, asked), "ok\n");
        refuse!("{line}");
        refuse!("fn0: ALLOC_PD: status 0x1: injected");
        assert_eq!(execute(&mut fabric, "0 refused"), "ok\n");
        // For one test.
        refuse!("{line}");
        assert!(execute(&mut fabric, "0 refused").starts_with("failed"));
    }
}
