//! Who of the replicas of an engine may write, by the Lease at the target.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use sync_engine::sandbox::{Request, Verb};

use super::checker::RECORDS;
use super::core::Core;
use super::process::{LEASE_DURATION, OTHER, RENEW_DEADLINE, THIRD, replica};
use super::server::Side;

/// What a process that stood still had on its way arrives when it goes on.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// Who wrote as the leader last, and which processes went on when.
#[derive(Default)]
pub struct Leaders {
    /// The present reign.
    reign: String,
    /// Whether its leader has written.
    has_written: bool,
    resumed: BTreeMap<u32, Duration>,
}

impl Leaders {
    pub fn resumed(&mut self, at: Duration, process: u32) {
        self.resumed.insert(process, at);
    }
}

/// An engine sends a write: once the present leader has written, nobody else does.
pub fn judge(core: &mut Core, process: u32, is_renewal: bool) {
    let url = format!("/apis/coordination.k8s.io/v1/namespaces/{RECORDS}/leases/sync-engine-main");
    let Some(lease) = core.get(Side::Target, &url).filter(|_| process != OTHER) else { return };
    let spec = &lease["spec"];
    let reign = format!("{} {} {}", lease["metadata"]["uid"], spec["leaseTransitions"], spec["acquireTime"]);
    let at = core.age();
    if core.leaders.reign != reign {
        (core.leaders.reign, core.leaders.has_written) = (reign, false);
    }
    if is_renewal {
        return;
    }
    if spec["holderIdentity"] == replica(process).as_str() {
        core.leaders.has_written = true;
    } else if core.leaders.has_written {
        let went_on = core.leaders.resumed.get(&process);
        if went_on.is_none_or(|went_on| *went_on + ON_ITS_WAY < at) {
            core.checker.violated("I8", format!("engine {process} writes while {} leads", spec["holderIdentity"]));
        }
    }
}

/// Where the Leases of a world are.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/sync-engine/leases";

/// The Leases that a process holds, as URLs.
pub fn lease_of(core: &mut Core, process: u32) -> Vec<String> {
    let leases = core.get(Side::Target, LEASES).unwrap_or_default();
    let all = leases["items"].as_array().into_iter().flatten();
    let own = all.filter(|lease| lease["spec"]["holderIdentity"] == replica(process).as_str());
    own.filter_map(|lease| Some(format!("{LEASES}/{}", lease["metadata"]["name"].as_str()?))).collect()
}

/// Who wrote for which work last, of replicas that share it, and what became of their Leases.
#[derive(Default)]
pub struct Shares {
    reigns: BTreeMap<String, Reign>,
    leases: BTreeMap<u32, Known>,
}

/// A process that writes for a work: a source cluster, or the state store of a mapping.
struct Reign {
    process: u32,
    since: Duration,
}

/// What the server has of the Lease of a process.
#[derive(Default)]
struct Known {
    lease: Value,
    /// When it was last written, deleted or restored.
    changed: Duration,
    /// When its holder took it, or renewed it although it had run out.
    joined: Duration,
}

/// The Leases may be others now.
pub fn note(core: &mut Core) {
    let at = core.age();
    let leases = core.get(Side::Target, LEASES).unwrap_or_default();
    for process in [0, 1, THIRD] {
        let all = leases["items"].as_array().into_iter().flatten();
        let of = |lease: &&Value| lease["metadata"]["name"].as_str() == core.shares.name_of(process).as_deref();
        let by_holder = |lease: &&Value| lease["spec"]["holderIdentity"] == replica(process).as_str();
        let found = all.clone().find(of).or_else(|| all.clone().find(by_holder)).cloned().unwrap_or_default();
        let known = core.shares.leases.entry(process).or_default();
        let reign = |lease: &Value| {
            let spec = &lease["spec"];
            [&lease["metadata"]["uid"], &spec["acquireTime"], &spec["leaseTransitions"], &spec["holderIdentity"]]
                .map(Value::clone)
        };
        if known.lease != found {
            // Who renews a Lease that has run out comes back, and waits as who takes one.
            let is_anew = reign(&known.lease) != reign(&found) || at >= known.changed + LEASE_DURATION;
            if is_anew && found.is_object() {
                known.joined = at;
            }
            known.changed = at;
            known.lease = found;
        }
    }
}

impl Shares {
    /// The name of the Lease that a process had last.
    fn name_of(&self, process: u32) -> Option<String> {
        self.leases.get(&process)?.lease["metadata"]["name"].as_str().map(str::to_owned)
    }
}

/// An engine sends a write for a work: it is its own, and no other's at that time.
pub fn judge_share(core: &mut Core, process: u32, work: String) {
    note(core);
    let at = core.age();
    let shares = &mut core.shares;
    let Some(reign) = shares.reigns.get(&work).filter(|reign| reign.process != process) else {
        shares.reigns.entry(work).or_insert(Reign { process, since: at });
        return;
    };
    let (Some(former), Some(own)) = (shares.leases.get(&reign.process), shares.leases.get(&process)) else { return };
    let has_joined = |known: &Known| known.joined > reign.since;
    let is_handed_back = former.lease["spec"]["holderIdentity"] == "";
    let has_run_out = at >= former.changed + LEASE_DURATION;
    // While it waited, the other one may have begun.
    let its_turn = own.joined + RENEW_DEADLINE;
    let joined_before = its_turn > reign.since && at >= its_turn;
    // It came back, and waits.
    let comes_back = has_joined(former) && at < former.joined + RENEW_DEADLINE;
    let went_on = core.leaders.resumed.get(&process);
    let is_late = went_on.is_some_and(|went_on| *went_on + ON_ITS_WAY >= at);
    if is_handed_back || has_run_out || joined_before || comes_back {
        shares.reigns.insert(work, Reign { process, since: at });
    } else if !is_late {
        let text = format!("engine {process} writes for {work} while engine {} does", reign.process);
        core.note(format_args!("I8: {text}"));
        core.checker.violated("I8", text);
    }
}

/// The work that a write belongs to; `None`: it cannot be told.
pub fn work(core: &Core, side: Side, request: &Request) -> Option<String> {
    let call = request.call();
    let store = format!("the state store {}", call.name);
    let body = || serde_json::from_slice::<Value>(&request.body).unwrap_or_default();
    let cluster = match side {
        Side::Target | Side::Second if call.namespace == RECORDS => {
            return (call.resource == "configmaps").then_some(store);
        }
        // The address of a plain cluster may lead to another one.
        Side::Source => call.cluster.clone(),
        Side::Target | Side::Second if call.verb == Verb::Delete => {
            let uid = body()["preconditions"]["uid"].as_str().map(str::to_owned)?;
            core.checker.made.get(&uid)?.owner.cluster.clone()
        }
        Side::Target | Side::Second => {
            body()["metadata"]["annotations"]["sync-engine.dev/cluster"].as_str()?.to_owned()
        }
    };
    (!cluster.is_empty()).then(|| format!("cluster {cluster}"))
}
