// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Checks of the kernel and of the modules. */
#include <string.h>

#include "doctor.h"
#include "sys.h"

/* Reads options of the kernel's configuration. Returns whether there is a file of it. */
static bool read_config(const char *release, const char *const *options, bool *set, int count)
{
	char line[256];
	FILE *f = sys_open("/boot/config-%s", release);

	if (!f)
		f = sys_open("/lib/modules/%s/config", release);
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		for (int i = 0; i < count; i++) {
			size_t n = strlen(options[i]);

			if (!strncmp(line, options[i], n) && (!strncmp(line + n, "=y", 2) ||
							      !strncmp(line + n, "=m", 2)))
				set[i] = true;
		}
	}
	fclose(f);
	return true;
}

/* The name that Debian's packages have for this architecture. */
#if defined(__aarch64__)
#define ARCHITECTURE "arm64"
#else
#define ARCHITECTURE "amd64"
#endif

/* How one gets a kernel with Rust: not every release of Debian has it without backports, or at all. */
static const char *kernel_with_rust(void)
{
	const char *fix = "a kernel with CONFIG_RUST, as Debian 13 has in its backports, and Debian 14";
	char line[128];
	FILE *f = sys_open("/etc/os-release");

	if (!f)
		return fix;
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (!strcmp(line, "VERSION_CODENAME=trixie"))
			fix = "apt install -t trixie-backports linux-image-" ARCHITECTURE;
		else if (!strcmp(line, "VERSION_CODENAME=forky"))
			fix = "apt install linux-image-" ARCHITECTURE;
	}
	fclose(f);
	return fix;
}

static void check_config(const char *release)
{
	static const char *const options[] = { "CONFIG_RUST", "CONFIG_INFINIBAND_USER_ACCESS",
					       "CONFIG_PCI_P2PDMA", "CONFIG_KPROBES" };
	bool set[4] = { false };

	if (module_loaded("ib_peer_mem"))
		return report(OK, NULL, "Linux %s runs ib_peer_mem", release);
	if (!read_config(release, options, set, 4))
		return report(UNKNOWN, NULL, "Linux %s: no /boot/config-%s", release, release);
	if (!set[0])
		return report(FAIL, kernel_with_rust(),
			      "Linux %s is built without CONFIG_RUST, which the modules need", release);
	for (int i = 1; i < 4; i++)
		if (!set[i])
			report(FAIL, NULL, "Linux %s is built without %s", release, options[i]);
	report(OK, NULL, "Linux %s is built with CONFIG_RUST", release);
}

static void check_lockdown(void)
{
	char line[96], *mode, *end;

	if (!sys_line(line, sizeof(line), "/sys/kernel/security/lockdown"))
		return;
	mode = strchr(line, '[');
	end = strchr(line, ']');
	if (!mode || !end)
		return;
	*end = 0;
	if (!strcmp(mode + 1, "none"))
		report(OK, NULL, "the kernel is not locked down");
	else
		report(WARN, "mokutil --sb-state", "the kernel is locked down (%s), as with Secure "
		       "Boot: modules must be signed, and io_peer_mem binds nothing", mode + 1);
}

/* The type of a group: DMA, DMA-FQ, identity. */
static void check_iommu(void)
{
	struct sys_list iommus = sys_list("/sys/class/iommu");
	char type[32] = "";

	if (!iommus.count)
		report(OK, NULL, "no IOMMU is in use");
	else if (sys_line(type, sizeof(type), "/sys/kernel/iommu_groups/0/type") &&
		 !strcmp(type, "identity"))
		report(OK, NULL, "the IOMMU passes addresses through (%s)", type);
	else
		report(WARN, "add iommu=pt to the kernel's command line; then devices of the host can access all "
		       "of its memory",
		       "the IOMMU translates (%s): traffic between devices may go through the host "
		       "bridge", type[0] ? type : "type not known");
	sys_list_free(&iommus);
}

void check_kernel(void)
{
	struct release release = sys_release();

	report_area("kernel");
	check_config(release.name);
	check_lockdown();
	check_iommu();
}

/*
 * Reads the version of the module that modprobe would load; empty if there is none, or if the root is
 * no machine.
 */
static void installed_version(const char *module, char *version, size_t size)
{
	char command[96];
	FILE *f;

	version[0] = 0;
	if (sys_root[0])
		return;
	snprintf(command, sizeof(command), "/sbin/modinfo -F version %s 2>/dev/null", module);
	f = popen(command, "re");
	if (!f)
		return;
	if (fgets(version, size, f))
		version[strcspn(version, "\n")] = 0;
	pclose(f);
}

/* An upgrade does not touch modules that are loaded. */
static void check_version(const char *module, const char *loaded)
{
	char installed[32];

	installed_version(module, installed, sizeof(installed));
	if (installed[0] && strcmp(installed, loaded))
		report(WARN, "reboot; or unload the clients and the modules when iopm regions lists nothing",
		       "%s %s is loaded, but %s is installed", module, loaded, installed);
}

/*
 * @unloaded: what it means that the module is installed, but not loaded, with its @text and @fix. If it is
 * OK, a missing module is no failure.
 */
static void check_module(const char *module, enum status unloaded, const char *text, const char *fix)
{
	/* In no archive: "make deb" builds it. */
	static const char install[] = "apt install ../ib-peer-mem-common_*.deb "
				      "../ib-peer-mem-dkms_*.deb, built as README.md says";
	char taint[32], number[32], version[48] = "";

	if (!module_loaded(module)) {
		if (module_installed(module))
			report(unloaded, fix, "%s %s", module, text);
		else if (unloaded != OK)
			report(FAIL, strcmp(module, "ib_uverbs") ? install : "a kernel with "
			       "CONFIG_INFINIBAND_USER_ACCESS, as Debian's linux-image-" ARCHITECTURE,
			       "%s is not installed for the running kernel", module);
		else
			report(WARN, install,
			       "%s, which serves PCI BARs, is not installed", module);
		return;
	}
	if (sys_line(number, sizeof(number), "/sys/module/%s/version", module)) {
		snprintf(version, sizeof(version), ", version %s", number);
		check_version(module, number);
	}
	sys_line(taint, sizeof(taint), "/sys/module/%s/taint", module);
	if (strchr(taint, 'E'))
		report(WARN, "mokutil --import /var/lib/dkms/mok.pub",
		       "%s is loaded%s; it is not signed: Secure Boot would refuse it", module, version);
	else
		report(OK, NULL, "%s is loaded%s", module, version);
}

void check_modules(void)
{
	report_area("modules");
	if (module_builtin("ib_uverbs"))
		report(OK, NULL, "ib_uverbs is a part of the kernel");
	else
		check_module("ib_uverbs", FAIL, "is installed, but not loaded", "modprobe ib_uverbs");
	check_module("ib_peer_mem", WARN, "is not loaded: no client needs it yet",
		     "iopm bind BDF; or the driver of the GPU, as modprobe nvidia-peermem");
	check_module("io_peer_mem", OK, "is not loaded: iopm bind does that, for PCI BARs", NULL);
}
