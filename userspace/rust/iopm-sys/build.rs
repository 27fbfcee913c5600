// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Finds libiopm: in the folder `IOPM_LIB_DIR`, else by pkg-config. `IOPM_STATIC=1` links the static
//! library.

use std::env;

fn main() {
    println!("cargo:rerun-if-env-changed=IOPM_LIB_DIR");
    println!("cargo:rerun-if-env-changed=IOPM_STATIC");
    let is_static = env::var_os("IOPM_STATIC").is_some_and(|value| value != "0");
    if let Ok(folder) = env::var("IOPM_LIB_DIR") {
        let kind = if is_static { "static" } else { "dylib" };
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-lib={kind}=iopm");
        println!("cargo:rustc-link-lib=ibverbs");
        return;
    }
    let found = pkg_config::Config::new()
        .atleast_version("1.0.0")
        .statik(is_static)
        .probe("libiopm");
    if let Err(e) = found {
        panic!("{e}\nlibiopm is missing: install libiopm-dev, or set IOPM_LIB_DIR to its folder");
    }
    // The crate deregisters memory regions itself.
    println!("cargo:rustc-link-lib=ibverbs");
}
