//! Which of the replicas of an engine may write, by the Lease at the target.

use std::collections::BTreeMap;
use std::time::Duration;

use super::core::Core;
use super::process::{OTHER, replica};
use super::server::Side;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/sync-engine/leases/sync-engine-main";

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
    let Some(lease) = core.get(Side::Target, LEASE).filter(|_| process != OTHER) else { return };
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

/// The Lease, if a process holds it.
pub fn lease_of(core: &mut Core, process: u32) -> Option<&'static str> {
    let lease = core.get(Side::Target, LEASE)?;
    (lease["spec"]["holderIdentity"] == replica(process).as_str()).then_some(LEASE)
}
