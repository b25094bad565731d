//! `sync-engine retarget`: a person says that the move of sources to another target is meant.

use std::collections::BTreeMap;

use super::Exit;
use super::live::{Finding, LiveArguments, Outcome, report, survey};
use super::pinned::pinned;
use crate::engine::target::identity;
use crate::mapping::Mapping;
use crate::survey::{Surveyor, Unseen};

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine retarget mappings --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig new.kubeconfig
             sync-engine retarget mappings --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig new.kubeconfig --yes

A source is pinned to the target that it was synced to. This verb pins the sources of another target to the target that the \
connection leads to now. It writes to no target: objects on the former target stay there.

Exit codes: 0 listed or done; 1 a source was refused; 2 usage error; 3 a file or a cluster cannot be read, or a mapping is wrong.";

pub(super) fn retarget(live: &LiveArguments) -> anyhow::Result<Exit> {
    let (catalog, surveyor) = live.open()?;
    let findings = survey(&catalog, async |mapping| of_mapping(&surveyor, mapping, live).await)?;
    if findings.is_empty() {
        eprintln!("no such source is pinned to another target");
    }
    report(&findings, live.output)
}

async fn of_mapping(surveyor: &Surveyor, mapping: &Mapping, live: &LiveArguments) -> Result<Vec<Finding>, Unseen> {
    if mapping.target_rule.is_some() {
        // Its sources may have objects on other targets, which they would be cut off from.
        let what = "it has several targets, so its sources are not moved by hand: see `onTargetChange`, and \
                    `uninstall --lost-target` for a target that is lost";
        return Err(Unseen::Connection(what.to_owned()));
    }
    let target = surveyor.target_name(mapping);
    let endpoint = surveyor.connection(target)?.endpoint();
    let identity = identity(&endpoint).await.map_err(Unseen::Connection)?;
    let found = format!("`{target}` leads to {identity} now");
    let now = BTreeMap::from([(target.to_owned(), identity.clone())]);
    let mut findings = Vec::new();
    let sources = pinned(surveyor, mapping, &live.scope).await?;
    for one in sources.iter().filter(|one| one.pins.values().all(|pin| *pin != identity)) {
        let result = if live.yes { one.write(&one.pinned_to(&now)).await } else { Ok(()) };
        let outcome = Outcome::of(result, live.yes, ("retarget", "retargeted"));
        findings.push(one.finding(outcome, "TargetChanged", &found));
    }
    Ok(findings)
}
