// SPDX-License-Identifier: GPL-2.0

//! Hints that a kernel driver sets on a user context, and how the hints reach `acquire`.

use kernel::prelude::*;

#[kunit_tests(peer_mem_hints)]
mod tests {
    use crate::{
        client::Hint,
        suites::prelude::*,
        user::Context, //
    };

    /// Registers in a context after `prepare`, and returns the hint of `acquire`.
    fn acquired_hint(prepare: impl FnOnce(&Context) -> Result) -> Result<Hint> {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        client.expect_hints();
        let context = Context::around(&t.pd)?;
        let result = prepare(&context).and_then(|()| {
            t.reg(&client, PAGE)?.dereg()?;
            Ok(client.hint())
        });
        drop(context);
        t.finish()?;
        result
    }

    const NONE: Hint = Hint {
        data: 0,
        name: None,
    };

    #[test]
    fn both_halves_reach_acquire() -> Result {
        let hint = acquired_hint(|c| c.hint(Some(c"ring"), 0x1234))?;
        ensure_eq!(hint.data, 0x1234);
        ensure_eq!(hint.name, Some(*b"ring"));
        Ok(())
    }

    #[test]
    fn either_half_may_be_missing() -> Result {
        let hint = acquired_hint(|c| c.hint(None, 0x1234))?;
        ensure_eq!((hint.data, hint.name), (0x1234, None));
        let hint = acquired_hint(|c| c.hint(Some(c"ring"), 0))?;
        ensure_eq!((hint.data, hint.name), (0, Some(*b"ring")));
        Ok(())
    }

    #[test]
    fn without_one_both_are_null() -> Result {
        ensure_eq!(acquired_hint(|_| Ok(()))?, NONE);
        Ok(())
    }

    #[test]
    fn a_later_one_replaces_it() -> Result {
        let hint = acquired_hint(|c| {
            c.hint(Some(c"ring"), 1)?;
            c.hint(Some(c"heap"), 2)
        })?;
        ensure_eq!((hint.data, hint.name), (2, Some(*b"heap")));
        Ok(())
    }

    #[test]
    fn a_cleared_one_is_gone() -> Result {
        let hint = acquired_hint(|c| {
            c.hint(Some(c"ring"), 1)?;
            c.clear();
            c.clear();
            Ok(())
        })?;
        ensure_eq!(hint, NONE);
        Ok(())
    }

    #[test]
    fn it_ends_with_the_context() -> Result {
        let hint = acquired_hint(|c| {
            c.hint(Some(c"ring"), 1)?;
            c.again();
            Ok(())
        })?;
        ensure_eq!(hint, NONE);
        Ok(())
    }

    #[test]
    fn other_contexts_do_not_have_it() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let other = user::Pd::new(t.registered())?;
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
        ensure!(acquired_hint(|c| c.hint(Some(LONG), 0)).is_ok());
        ensure_eq!(
            acquired_hint(|c| c.hint(Some(TOO_LONG), 0)).err(),
            Some(EINVAL)
        );
        Ok(())
    }
}
