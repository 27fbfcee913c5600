// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm metrics: the state of the machine as text of OpenMetrics.

use crate::{
    modules::is_loaded,
    stack::{client_number, debugfs, Adapters, Kind, Memory, Region, PEERS},
    sys,
};
use prometheus_client::{
    collector::Collector,
    encoding::{text::encode, DescriptorEncoder},
    metrics::MetricType,
    registry::Registry,
};
use std::{collections::BTreeMap, fmt};

/// The counters of the clients: family, file, help.
const COUNTERS: [(&str, &str, &str); 9] = [
    ("registrations", "num_alloc_mrs", "MRs that were made on memory of the client."),
    ("deregistrations", "num_dealloc_mrs", "MRs that ended: deregistered or revoked."),
    ("registered_bytes", "num_reg_bytes", "Bytes of the MRs that were made."),
    ("deregistered_bytes", "num_dereg_bytes", "Bytes of the MRs that ended."),
    ("registered_pages", "num_reg_pages", "Pages of the MRs that were made."),
    ("deregistered_pages", "num_dereg_pages", "Pages of the MRs that ended."),
    ("invalidations", "num_free_callbacks", "Invalidations by the client, whatever their effect."),
    ("revocations", "num_revocations", "Regions that were fenced before the user deregistered the MR."),
    ("failed_fences", "num_failed_fences", "Attempts to fence that failed or timed out."),
];

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Labels, u64)>,
}

/// The families, in their order.
#[derive(Debug, Default)]
struct State(Vec<Family>);

impl Collector for State {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let mut encoder = encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
            for (labels, value) in &family.samples {
                let encode = |encoder: &mut prometheus_client::encoding::MetricEncoder<'_>| match family.kind
                {
                    MetricType::Counter => encoder.encode_counter::<(), _, u64>(value, None),
                    // CAST: Sizes and numbers of what there is are below 2^63.
                    _ => encoder.encode_gauge(&(*value as i64)),
                };
                if labels.is_empty() {
                    encode(&mut encoder)?;
                } else {
                    encode(&mut encoder.encode_family(labels)?)?;
                }
            }
        }
        Ok(())
    }
}

/// The crate writes the values of labels as they are.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn labels<const N: usize>(pairs: [(&'static str, &str); N]) -> Labels {
    pairs.map(|(name, value)| (name, escape(value))).into()
}

impl State {
    fn gauge(&mut self, name: &'static str, help: &'static str, samples: Vec<(Labels, u64)>) {
        self.0.push(Family { name, help, kind: MetricType::Gauge, samples });
    }

    fn modules(&mut self) {
        let sample = |name| {
            let version = sys::line(format!("/sys/module/{name}/version")).unwrap_or_default();
            (labels([("module", name), ("version", &version)]), is_loaded(name).into())
        };
        let samples = ["ib_peer_mem", "io_peer_mem"].map(sample).into();
        self.gauge("module_loaded", "Whether the module is loaded.", samples);
    }

    fn clients(&mut self) {
        let clients = sys::entries(PEERS);
        for (name, file, help) in COUNTERS {
            // An older module does not have each counter.
            let samples = clients.iter().filter_map(|client| {
                Some((labels([("client", &client.to_string_lossy())]), client_number(client, file)?))
            });
            let samples = samples.collect();
            self.0.push(Family { name, help, kind: MetricType::Counter, samples });
        }
    }

    /// For root: debugfs. Regions that differ in nothing but the process, the address and the age count
    /// together.
    fn regions(&mut self) {
        let regions = Region::all();
        let mut groups = BTreeMap::<_, (u64, u64)>::new();
        for region in regions.iter().flatten() {
            let device = region.device.as_deref().unwrap_or("-");
            let key = (&region.client, device, &region.kind, &region.state);
            let group = groups.entry(key).or_default();
            group.0 += 1;
            group.1 += region.length;
        }
        let samples = |value: fn(&(u64, u64)) -> u64| {
            let sample =
                |((client, device, kind, state), group): (&(&String, &str, &String, &String), &_)| {
                    let labels =
                        labels([("client", client), ("device", device), ("kind", kind), ("state", state)]);
                    (labels, value(group))
                };
            groups.iter().map(sample).collect::<Vec<_>>()
        };
        self.gauge(
            "details_readable",
            "Whether debugfs could be read, which the metrics of regions, devices and rejections need.",
            vec![(Vec::new(), regions.is_ok().into())],
        );
        self.gauge("regions", "Live regions and imports.", samples(|group| group.0));
        self.gauge("region_bytes", "Bytes of the live regions and imports.", samples(|group| group.1));
    }

    fn devices(&mut self) {
        let adapters = Adapters::find();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let samples = adapters.list.iter().filter(|_| adapters.backends_known).map(|adapter| {
            let labels = labels([
                ("device", &adapter.name),
                ("driver", &text(&adapter.driver)),
                ("backend", &text(&adapter.backend)),
                ("can_fence", &text(&adapter.can_fence)),
            ]);
            (labels, adapter.backend.is_some().into())
        });
        let samples = samples.collect();
        self.gauge("device_served", "Whether ib_peer_mem serves the RDMA device.", samples);
    }

    fn rejections(&mut self) {
        let rows = debugfs("rejections").ok();
        let age = |row: &Vec<String>| row.first()?.split('.').next()?.parse().ok();
        let ages: Option<Vec<u64>> = rows.map(|rows| rows.iter().filter_map(age).collect());
        let kept = ages.iter().map(|ages| (Vec::new(), ages.len() as u64)).collect();
        // The newest is the last.
        let last = ages.iter().flatten().last().map(|&age| (Vec::new(), age));
        self.gauge("kept_rejections", "Rejected registrations in the log of the last 64.", kept);
        let last = last.into_iter().collect();
        self.gauge("last_rejection_age_seconds", "Seconds since the last rejected registration.", last);
    }

    /// BARs of io_peer_mem that the caller may open, and peer-to-peer memory of other drivers.
    fn pools(&mut self) {
        let pools =
            Memory::find(None).into_iter().filter(|memory| memory.kind != Kind::Gpu).filter_map(|memory| {
                let pool = memory.pool().ok()?;
                let driver = memory.function.driver.unwrap_or_default();
                Some((labels([("memory", &memory.name), ("driver", &driver)]), pool))
            });
        let pools: Vec<_> = pools.collect();
        let samples = |value: fn(&crate::stack::Pool) -> Option<u64>| {
            pools.iter().filter_map(|(labels, pool)| Some((labels.clone(), value(pool)?))).collect()
        };
        self.gauge("pool_size_bytes", "Size of the memory for RDMA.", samples(|pool| Some(pool.size)));
        self.gauge("pool_free_bytes", "Free memory.", samples(|pool| Some(pool.free)));
        self.gauge("pool_largest_free_bytes", "Largest free range.", samples(|pool| pool.largest));
    }
}

/// Returns the text.
pub(crate) fn text() -> anyhow::Result<String> {
    let mut state = State::default();
    state.modules();
    state.clients();
    state.regions();
    state.devices();
    state.rejections();
    state.pools();
    let mut registry = Registry::with_prefix("ib_peer_mem");
    registry.register_collector(Box::new(state));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}
