// SPDX-License-Identifier: GPL-2.0

//! Hints that a kernel driver sets on a user context, and how the hints reach `acquire`.

#[kernel::prelude::kunit_tests(peer_mem_hints)]
mod tests {
    use crate::suites::prelude::*;

    /// Registers in a context after `prepare`, and returns the data and the name of the hint of
    /// `acquire`.
    fn acquired_hint(prepare: impl FnOnce(&Context) -> Result) -> Result<Hint> {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let context = Context::around(&t.pd)?;
        let result = prepare(&context).and_then(|()| {
            t.reg(&client, PAGE)?.dereg()?;
            Ok(client.hint())
        });
        drop(context);
        t.finish()?;
        result
    }

    #[test]
    fn the_last_one_reaches_acquire() -> Result {
        type Case = (fn(&Context) -> Result, usize, Option<[u8; 4]>);
        let cases: [Case; 7] = [
            (|_| Ok(()), 0, None),
            (|c| c.hint(Some(c"ring"), 1), 1, Some(*b"ring")),
            // Each half alone.
            (|c| c.hint(None, 1), 1, None),
            (|c| c.hint(Some(c"ring"), 0), 0, Some(*b"ring")),
            (
                |c| {
                    c.hint(Some(c"ring"), 1)?;
                    c.hint(Some(c"heap"), 2)
                },
                2,
                Some(*b"heap"),
            ),
            (|c| c.hint(Some(c"ring"), 1).map(|()| c.clear()), 0, None),
            (|c| c.hint(Some(c"ring"), 1).map(|()| c.again()), 0, None),
        ];
        for (prepare, data, name) in cases {
            ensure_eq!(acquired_hint(prepare)?, (data, name));
        }
        Ok(())
    }

    #[test]
    fn other_contexts_do_not_have_it() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let other = Pd::new(t.registered())?;
        let context = Context::around(&other)?;
        let result = context.hint(Some(c"ring"), 1).and_then(|()| {
            // This PD belongs to no context.
            t.reg(&client, PAGE)?.dereg()?;
            Ok(client.hint())
        });
        drop(context);
        drop(other);
        t.finish()?;
        ensure_eq!(result?, (0, None));
        Ok(())
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
