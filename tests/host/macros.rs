// SPDX-License-Identifier: GPL-2.0

//! The attribute macros of the kernel crate that the tested files use, for the host.

extern crate proc_macro;

use proc_macro::{Group, TokenStream, TokenTree};

/// `#[kunit_tests(suite)] mod tests`: a module of tests. `Result` is a value that a test of the
/// host may return, so nothing else changes.
#[proc_macro_attribute]
pub fn kunit_tests(_suite: TokenStream, module: TokenStream) -> TokenStream {
    let mut out: TokenStream = "#[cfg(test)]".parse().unwrap();
    out.extend(module);
    out
}

/// `#[pin_data]`: the structure without its `#[pin]` attributes; nothing here moves.
#[proc_macro_attribute]
pub fn pin_data(_args: TokenStream, item: TokenStream) -> TokenStream {
    let mut out = Vec::new();
    for token in item {
        if let TokenTree::Group(group) = &token {
            if matches!(out.last(), Some(TokenTree::Punct(p)) if p.as_char() == '#')
                && group.stream().to_string() == "pin"
            {
                out.pop();
                continue;
            }
            out.push(Group::new(group.delimiter(), pin_data(TokenStream::new(), group.stream())).into());
        } else {
            out.push(token);
        }
    }
    out.into_iter().collect()
}
