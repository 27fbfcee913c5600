/* SPDX-License-Identifier: GPL-2.0 */
#ifndef EXT_HELPERS_PARAMS_H
#define EXT_HELPERS_PARAMS_H

/* Defined by each module with string parameters; see rust/ext/base/params.rs. */
const char *ext_module_param_str(const char *name);

/*
 * Defined by param_function! in Rust: the first returns -EINVAL, and logs a line, if @value is not valid
 * for the parameter @name. The second is called with the lock of the parameters held, after @name has
 * been set to @value.
 */
int ext_module_param_check(const char *name, const char *value);
int ext_module_param_apply(const char *name, const char *value);

/*
 * Defined by each module with writable string parameters. The kernel does not replace a value while
 * the lock is held.
 */
void ext_module_params_lock(void);
void ext_module_params_unlock(void);

#endif
