/* SPDX-License-Identifier: GPL-2.0 */
#ifndef EXT_HELPERS_PARAMS_H
#define EXT_HELPERS_PARAMS_H

/* Defined by each module that has string parameters; see rust/params.rs. */
const char *ext_module_param_str(const char *name);

/*
 * By check_params! in Rust: -EINVAL, and a line in the log, for what is no value of
 * that parameter.
 */
int ext_module_param_check(const char *name, const char *value);

/* And by those of which some may be written to: nobody writes while it is held. */
void ext_module_params_lock(void);
void ext_module_params_unlock(void);

#endif
