// SPDX-License-Identifier: GPL-2.0

//! Hints that a kernel driver sets on a user context, and how the hints reach `acquire`.

use kernel::prelude::*;

#[kunit_tests(peer_mem_hints)]
mod tests {
    use crate::{
        suites::prelude::*,
        user::Context, //
    };

    /// Registers in a context after `prepare`, and returns the data and the name of the hint of
    /// `acquire`.
    fn acquired_hint(prepare: impl FnOnce(&Context) -> Result) -> Result<(usize, Option<[u8; 4]>)> {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        client.expect_hints();
        let context = Context::around(&t.pd)?;
        let result = prepare(&context).and_then(|()| {
            t.reg(&client, PAGE)?.dereg()?;
            let Hint { data, name } = client.hint();
            Ok((data, name))
        });
        drop(context);
        t.finish()?;
        result
    }

    #[test]
    fn either_half_reaches_acquire() -> Result {
        for (name, data) in [(Some(c"ring"), 0x1234), (None, 0x1234), (Some(c"ring"), 0)] {
            let hint = acquired_hint(|c| c.hint(name, data))?;
            ensure_eq!(hint, (data, name.map(|_| *b"ring")));
        }
        ensure_eq!(acquired_hint(|_| Ok(()))?, (0, None));
        Ok(())
    }

    #[test]
    fn a_later_one_replaces_it() -> Result {
        let hint = acquired_hint(|c| {
            c.hint(Some(c"ring"), 1)?;
            c.hint(Some(c"heap"), 2)
        })?;
        ensure_eq!(hint, (2, Some(*b"heap")));
        Ok(())
    }

    #[test]
    fn it_ends_when_it_is_cleared_and_with_the_context() -> Result {
        for end in [Context::clear, Context::again] {
            let hint = acquired_hint(|c| {
                c.hint(Some(c"ring"), 1)?;
                end(c);
                // Without a hint it does nothing.
                c.clear();
                Ok(())
            })?;
            ensure_eq!(hint, (0, None));
        }
        Ok(())
    }

    #[test]
    fn other_contexts_do_not_have_it() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let other = Pd::new(t.registered())?;
        let context = Context::around(&other)?;
        let result = context.hint(Some(c"ring"), 1).and_then(|()| {
            // This PD belongs to no context: a hint would be a violation.
            t.reg(&client, PAGE)?.dereg()
        });
        drop(context);
        drop(other);
        t.finish()?;
        result
    }

    #[test]
    fn a_name_has_a_limit() -> Result {
        const LONG: &CStr = c"a_name_of_sixty_three_characters_which_is_as_long_as_any_may_be";
        const TOO_LONG: &CStr =
            c"a_name_of_sixty_four_characters_which_is_longer_than_any_may_be!!";
        acquired_hint(|c| c.hint(Some(LONG), 0))?;
        let too_long = acquired_hint(|c| c.hint(Some(TOO_LONG), 0));
        ensure_eq!(too_long.err(), Some(EINVAL));
        Ok(())
    }
}
