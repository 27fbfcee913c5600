/* SPDX-License-Identifier: GPL-2.0 */
#ifndef EXT_HELPERS_PARAMS_H
#define EXT_HELPERS_PARAMS_H

/* Each module with string parameters defines this; see rust/ext/params.rs. */
const char *ext_module_param_str(const char *name);

/*
 * check_params! in Rust defines this. Returns -EINVAL, and logs a line, if @value is not
 * valid for the parameter @name.
 */
int ext_module_param_check(const char *name, const char *value);

/*
 * Each module with writable string parameters defines these. The kernel does not replace a
 * value while the lock is held.
 */
void ext_module_params_lock(void);
void ext_module_params_unlock(void);

#endif
