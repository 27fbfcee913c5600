// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Finds libiopm: in the directory `IOPM_LIB_DIR`, else by pkg-config. `IOPM_STATIC=1` links the
//! static library.

use std::{env, path::Path};

/// Has cargo build the crate again for another archive, which rustc bundles into it.
fn depend_on_archive(dir: &str) {
    let archive = Path::new(dir).join("libiopm.a");
    println!("cargo:rerun-if-changed={}", archive.display());
}

fn main() {
    println!("cargo:rerun-if-env-changed=IOPM_LIB_DIR");
    println!("cargo:rerun-if-env-changed=IOPM_STATIC");
    let is_static = env::var_os("IOPM_STATIC").is_some_and(|value| value != "0");
    if let Ok(dir) = env::var("IOPM_LIB_DIR") {
        let kind = if is_static { "static" } else { "dylib" };
        if is_static {
            depend_on_archive(&dir);
        }
        println!("cargo:rustc-link-search=native={dir}");
        println!("cargo:rustc-link-lib={kind}=iopm");
        println!("cargo:rustc-link-lib=ibverbs");
        return;
    }
    let found = pkg_config::Config::new()
        .atleast_version("1.0.0")
        .statik(is_static)
        .probe("libiopm");
    if let Err(e) = found {
        panic!("{e}\nlibiopm is missing: install libiopm-dev, or set IOPM_LIB_DIR");
    }
    if is_static {
        if let Ok(dir) = pkg_config::get_variable("libiopm", "libdir") {
            depend_on_archive(&dir);
        }
    }
    // The crate deregisters memory regions itself.
    println!("cargo:rustc-link-lib=ibverbs");
}
