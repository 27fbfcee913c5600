// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Writes the completions of shells and the manual pages of iopm, from its command line, to the directory
//! `$IOPM_GENERATED`.

#[cfg(feature = "tool")]
#[path = "src/bin/iopm/cli.rs"]
mod cli;

#[cfg(feature = "tool")]
fn generate(dir: &std::path::Path) -> std::io::Result<()> {
    use clap::CommandFactory;
    use clap_complete::{generate_to, Shell};
    use std::{fs::OpenOptions, io::Write};

    let all = cli::Cli::command();
    // Without what is not for users.
    let mut command = clap::Command::new("iopm")
        .version(env!("CARGO_PKG_VERSION"))
        .about(all.get_about().cloned().unwrap_or_default())
        .long_about(all.get_long_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .subcommands(all.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let file = generate_to(shell, &mut command, "iopm", dir)?;
        if shell == Shell::Bash {
            OpenOptions::new()
                .append(true)
                .open(file)?
                .write_all(include_bytes!("src/bin/iopm/completion.bash"))?;
        }
    }
    clap_mangen::generate_to(command, dir)?;
    // What follows the options would be one section.
    let mut page = OpenOptions::new().append(true).open(dir.join("iopm.1"))?;
    let (_, sections) = cli::MORE.split_once('\n').unwrap_or_default();
    for paragraph in sections.replace('-', "\\-").trim_end().split("\n\n") {
        match paragraph.split_once('\n') {
            Some((heading, text)) => writeln!(page, ".SH {heading}\n{text}")?,
            None => writeln!(page, ".PP\n{paragraph}")?,
        }
    }
    Ok(())
}

#[cfg(not(feature = "tool"))]
fn generate(_: &std::path::Path) -> std::io::Result<()> {
    Ok(())
}

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-env-changed=IOPM_GENERATED");
    println!("cargo::rerun-if-changed=src/bin/iopm/cli.rs");
    println!("cargo::rerun-if-changed=src/bin/iopm/completion.bash");
    println!("cargo::rerun-if-changed=src/bin/iopm/more.txt");
    match std::env::var_os("IOPM_GENERATED") {
        Some(dir) => generate(dir.as_ref()),
        None => Ok(()),
    }
}
