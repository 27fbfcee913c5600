// SPDX-License-Identifier: GPL-2.0

//! What a kernel driver says of a user context, and what `acquire` hears of it.

use kernel::prelude::*;

#[kunit_tests(peer_mem_hints)]
mod tests {
    use crate::{
        client::Hint,
        suites::prelude::*,
        user::Context, //
    };

    /// Registers once in a context that `prepare` has been at; what `acquire` heard.
    fn heard(prepare: impl FnOnce(&Context) -> Result) -> Result<Hint> {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        client.expect_hints()?;
        let context = Context::around(&bench.pd)?;
        let result = prepare(&context).and_then(|()| {
            bench.pd.reg(client.at(0), PAGE, USUAL)?.dereg()?;
            client.hint()
        });
        drop(context);
        bench.finish(&[&client])?;
        result
    }

    const NONE: Hint = Hint {
        data: 0,
        name: None,
    };

    #[test]
    fn both_halves_reach_acquire() -> Result {
        let hint = heard(|c| c.hint(Some(c"ring"), 0x1234))?;
        ensure_eq!(hint.data, 0x1234);
        ensure_eq!(hint.name, Some(*b"ring"));
        Ok(())
    }

    #[test]
    fn either_half_may_be_missing() -> Result {
        let hint = heard(|c| c.hint(None, 0x1234))?;
        ensure_eq!((hint.data, hint.name), (0x1234, None));
        let hint = heard(|c| c.hint(Some(c"ring"), 0))?;
        ensure_eq!((hint.data, hint.name), (0, Some(*b"ring")));
        Ok(())
    }

    #[test]
    fn without_one_both_are_null() -> Result {
        ensure_eq!(heard(|_| Ok(()))?, NONE);
        Ok(())
    }

    #[test]
    fn a_later_one_replaces_it() -> Result {
        let hint = heard(|c| {
            c.hint(Some(c"ring"), 1)?;
            c.hint(Some(c"heap"), 2)
        })?;
        ensure_eq!((hint.data, hint.name), (2, Some(*b"heap")));
        Ok(())
    }

    #[test]
    fn a_cleared_one_is_gone() -> Result {
        let hint = heard(|c| {
            c.hint(Some(c"ring"), 1)?;
            c.clear();
            c.clear();
            Ok(())
        })?;
        ensure_eq!(hint, NONE);
        Ok(())
    }

    #[test]
    fn it_goes_with_the_context() -> Result {
        let hint = heard(|c| {
            c.hint(Some(c"ring"), 1)?;
            c.again();
            Ok(())
        })?;
        ensure_eq!(hint, NONE);
        Ok(())
    }

    #[test]
    fn other_contexts_hear_nothing_of_it() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let other = user::Pd::new(bench.pd.dev())?;
        let context = Context::around(&other)?;
        let result = context.hint(Some(c"ring"), 1).and_then(|()| {
            // This PD is a kernel's, in no context: the client would not be content with a hint.
            bench.pd.reg(client.at(0), PAGE, USUAL)?.dereg()
        });
        drop(context);
        drop(other);
        bench.finish(&[&client])?;
        result
    }

    #[test]
    fn a_name_has_a_limit() -> Result {
        const LONG: &CStr = c"a_name_of_sixty_three_characters_which_is_as_long_as_any_may_be";
        const TOO_LONG: &CStr =
            c"a_name_of_sixty_four_characters_which_is_longer_than_any_may_be!!";
        ensure!(heard(|c| c.hint(Some(LONG), 0)).is_ok());
        ensure_eq!(heard(|c| c.hint(Some(TOO_LONG), 0)).err(), Some(EINVAL));
        Ok(())
    }
}
