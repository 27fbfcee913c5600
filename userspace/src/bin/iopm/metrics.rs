// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm metrics: the state of the machine as text of OpenMetrics.

use crate::prelude::*;
use prometheus_client::encoding::{text::encode, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::{gauge::ConstGauge, MetricType};
use prometheus_client::registry::Registry;

/// The counters of the clients: family, file, help, which gets a full stop as all. They change meanwhile: what has
/// ended is read before what has begun, as in [`Client::read`].
const COUNTERS: [(&str, &str, &str); 9] = [
    ("deregistrations", "num_dealloc_mrs", "MRs that ended: deregistered or revoked"),
    ("registrations", "num_alloc_mrs", "MRs that were made on memory of the client"),
    ("deregistered_bytes", "num_dereg_bytes", "Bytes of the MRs that ended"),
    ("registered_bytes", "num_reg_bytes", "Bytes of the MRs that were made"),
    ("deregistered_pages", "num_dereg_pages", "Pages of the MRs that ended"),
    ("registered_pages", "num_reg_pages", "Pages of the MRs that were made"),
    ("invalidations", "num_free_callbacks", "Invalidations by the client, whatever their effect"),
    ("revocations", "num_revocations", "Regions that were fenced before the user deregistered the MR"),
    ("failed_fences", "num_failed_fences", "Attempts to fence that failed or timed out"),
];

type Labels = Vec<(&'static str, String)>;

fn labels<V: AsRef<str>>(pairs: impl IntoIterator<Item = (&'static str, V)>) -> Labels {
    // The crate writes the values as they are.
    let escape = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    pairs.into_iter().map(|(name, value)| (name, escape(value.as_ref()))).collect()
}

/// Samples in their order: those of a family of the crate have none.
#[derive(Debug)]
struct Samples(MetricType, Vec<(Labels, u64)>);

impl EncodeMetric for Samples {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, value) in &self.1 {
            let mut encoder = encoder.encode_family(labels)?;
            match self.0 {
                MetricType::Counter => encoder.encode_counter::<Labels, _, u64>(value, None)?,
                // CAST: Sizes and numbers are below 2^63.
                _ => encoder.encode_gauge(&(*value as i64))?,
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        self.0
    }
}

fn gauges(to: &mut Registry, name: &str, help: &str, samples: impl IntoIterator<Item = (Labels, u64)>) {
    to.register(name, help, Samples(MetricType::Gauge, samples.into_iter().collect()));
}

/// One that has no labels.
fn gauge(to: &mut Registry, name: &str, help: &str, value: u64) {
    // CAST: A number is below 2^63.
    to.register(name, help, ConstGauge::new(value as i64));
}

fn modules(to: &mut Registry) {
    let samples = ["ib_peer_mem", "io_peer_mem"].map(|name| {
        let version = sys::line(format!("/sys/module/{name}/version")).unwrap_or_default();
        (labels([("module", name), ("version", &*version)]), is_loaded(name).into())
    });
    gauges(to, "module_loaded", "Whether the module is loaded", samples);
}

fn clients(to: &mut Registry) {
    let clients = sys::entries(PEERS);
    for (name, file, help) in COUNTERS {
        // An older module does not have each counter.
        let sample = |client: &OsString| {
            Some((labels([("client", &client.to_string_lossy())]), client_number(client, file)?))
        };
        let samples = Samples(MetricType::Counter, clients.iter().filter_map(sample).collect());
        to.register(name, help, samples);
    }
}

/// For root: debugfs. Regions that differ in nothing but the process, the address and the age count
/// together.
fn regions(to: &mut Registry) {
    let regions = Region::all();
    let help = "Whether debugfs could be read, which the metrics of regions, devices and rejections need";
    gauge(to, "details_readable", help, regions.is_ok().into());
    let (mut numbers, mut bytes) = (BTreeMap::<Labels, u64>::new(), BTreeMap::<Labels, u64>::new());
    for Region { client, device, kind, state, length, .. } in regions.into_iter().flatten() {
        let labels = labels([("client", &client), ("device", &device), ("kind", &kind), ("state", &state)]);
        *numbers.entry(labels.clone()).or_default() += 1;
        *bytes.entry(labels).or_default() += length;
    }
    gauges(to, "regions", "Live regions and imports", numbers);
    gauges(to, "region_bytes", "Bytes of the live regions and imports", bytes);
}

fn devices(to: &mut Registry) {
    let Adapters { backends_known, list } = Adapters::find();
    let samples = list.iter().filter(|_| backends_known).map(|adapter| {
        let of =
            [("driver", &adapter.driver), ("backend", &adapter.backend), ("can_fence", &adapter.can_fence)];
        let of = of.map(|(name, text)| (name, text.as_deref().unwrap_or_default()));
        (labels([&[("device", &*adapter.name)][..], &of].concat()), adapter.backend.is_some().into())
    });
    gauges(to, "device_served", "Whether ib_peer_mem serves the RDMA device", samples);
}

fn rejections(to: &mut Registry) {
    let Ok(rows) = debugfs("rejections") else { return };
    let age = |row: &Vec<String>| row.first()?.split('.').next().and_then(sys::parse);
    let ages: Vec<_> = rows.iter().filter_map(age).collect();
    gauge(to, "kept_rejections", "Rejected registrations in the log of the last 64", ages.len() as u64);
    // The newest is the last.
    if let Some(last) = ages.last() {
        gauge(to, "last_rejection_age_seconds", "Seconds since the last rejected registration", *last);
    }
}

/// BARs of io_peer_mem that the caller may open, and peer-to-peer memory of other drivers.
fn pools(to: &mut Registry) {
    let (mut sizes, mut free, mut largest) = (Vec::new(), Vec::new(), Vec::new());
    for memory in Memory::with_sizes() {
        let Ok((size, free_bytes, largest_free)) = memory.sizes() else { continue };
        let driver = memory.function.driver.unwrap_or_default();
        let labels = labels([("memory", &memory.name), ("driver", &driver)]);
        sizes.push((labels.clone(), size));
        free.push((labels.clone(), free_bytes));
        largest.extend(largest_free.map(|bytes| (labels, bytes)));
    }
    gauges(to, "pool_size_bytes", "Size of the memory for RDMA", sizes);
    gauges(to, "pool_free_bytes", "Free memory", free);
    gauges(to, "pool_largest_free_bytes", "Largest free range", largest);
}

pub(crate) fn text() -> anyhow::Result<String> {
    let (mut registry, mut text) = (Registry::with_prefix("ib_peer_mem"), String::new());
    for add in [modules, clients, regions, devices, rejections, pools] {
        add(&mut registry);
    }
    encode(&mut text, &registry)?;
    Ok(text)
}
