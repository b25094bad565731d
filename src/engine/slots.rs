//! Mappings with several targets: which these are.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::{error, info};

use super::target::aliases;
use super::{Engine, Serving, Target};
use crate::health::Condition;
use crate::mapping::{Mapping, SourceClusters};
use crate::multicluster::connection::Connection;
use crate::multicluster::manager::Manager;
use crate::multicluster::registry::{Cluster, ClustersOf, ProviderName};

/// A mapping on one of its targets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    pub mapping: String,
    /// Empty where the mapping has one target, whatever that is called.
    pub target: String,
}

impl Slot {
    pub fn of(mapping: &str) -> Self {
        Self { mapping: mapping.to_owned(), target: String::new() }
    }
}

impl Engine {
    /// The slots of a mapping, each with the name of its target. Targets of former documents stay, for what sources still have
    /// there.
    pub(super) fn slots(&self, mapping: &Mapping) -> BTreeMap<Slot, String> {
        let Some(rule) = &mapping.target_rule else {
            return [(Slot::of(&mapping.name), mapping.state_store(&self.shared.settings.home).to_owned())].into();
        };
        let selected = selected(&self.shared.manager, mapping);
        let former = self.former_targets.get(&mapping.name).into_iter().flatten();
        let names = rule.allowed.iter().chain(&selected).chain(former);
        names.map(|name| (Slot { mapping: mapping.name.clone(), target: name.clone() }, name.clone())).collect()
    }

    /// What a former document of a mapping had on targets that the present one does not name is still to be deleted with its
    /// sources.
    pub(super) fn note_former_targets(&mut self, mapping: &Mapping) {
        if mapping.target_rule.is_none() {
            return;
        }
        let running = self.pipelines_of(&mapping.name).map(|pipeline| pipeline.generation().target.name.clone());
        let running: BTreeSet<String> = running.collect();
        self.former_targets.entry(mapping.name.clone()).or_default().extend(running);
    }

    /// A state store names targets of former documents.
    pub(super) fn follow_targets(&mut self, mapping: &str, targets: &BTreeSet<String>) {
        let known = self.former_targets.entry(mapping.to_owned()).or_default();
        let before = known.len();
        known.extend(targets.iter().cloned());
        if known.len() > before {
            self.converge();
        }
    }

    /// Targets that no document names and no provider selects go, once nothing of the mapping is left there.
    pub(super) fn forget_former_targets(&mut self) {
        let mut left = Vec::new();
        for (_, entry) in self.entries() {
            let mapping = &entry.mapping;
            let (Some(rule), Some(former)) = (&mapping.target_rule, self.former_targets.get(&mapping.name)) else {
                continue;
            };
            let selected = selected(&self.shared.manager, mapping);
            let is_named = |name: &String| rule.allowed.contains(name) || selected.contains(name);
            // The last pipeline stays: it tells what the mapping's sources name.
            let most = self.pipelines_of(&mapping.name).count().saturating_sub(1);
            let slots = former.iter().filter(|name| !is_named(name));
            let slots = slots.map(|name| Slot { mapping: mapping.name.clone(), target: name.clone() });
            // Of a target that is away, its sources alone tell whether something is left there.
            let are_sources_seen = LazyCell::new(|| self.pipelines_of(&mapping.name).all(|one| one.hides_no_source()));
            let is_left = |slot: &Slot| {
                let pipeline = self.pipelines.get(slot).map(|running| &running.pipeline);
                pipeline.is_some_and(|one| one.is_left() && (!one.generation().target.is_away() || *are_sources_seen))
            };
            left.extend(slots.filter(is_left).take(most));
        }
        for slot in &left {
            info!(mapping = slot.mapping, connection = slot.target, "nothing is left on a former target");
            if let Some(former) = self.former_targets.get_mut(&slot.mapping) {
                former.remove(&slot.target);
            }
            self.stop(slot);
            self.pipelines_of(&slot.mapping).for_each(|pipeline| pipeline.leaves_target(&slot.target));
            self.shared.instruments.metrics.forget_target(&slot.mapping, &slot.target);
        }
        if !left.is_empty() {
            self.converge();
            // Clusters that their provider no longer lists, and that are no mapping's target any more.
            let used: BTreeSet<String> = self.running().map(|one| one.generation().target.name.clone()).collect();
            self.forget_targets(|name, target| target.is_away() && !used.contains(name));
        }
    }

    /// Nobody asks these targets for anything any more: what is wrong with them would be said for ever.
    pub(super) fn forget_targets(&mut self, is_unused: impl Fn(&str, &Target) -> bool) {
        let unused: Vec<(String, Arc<Target>)> =
            self.targets.extract_if(.., |name, target| is_unused(name, target)).collect();
        for (name, target) in &unused {
            target.retire();
            self.read.remove(name);
            for what in ["target", "state stores on target"] {
                self.shared.instruments.health.remove(&format!("{what} {name}"));
            }
        }
        if !unused.is_empty() {
            self.report_aliases();
        }
    }

    /// Tells the pipelines of a mapping of each other. Where that is news, every source is looked at again.
    pub(super) fn introduce(&self, mapping: &Mapping) {
        if mapping.target_rule.is_none() {
            return;
        }
        let Some(Serving { controller, .. }) = self.controllers.get(&mapping.name) else { return };
        let are_others_selected = controller.select(selected(&self.shared.manager, mapping));
        let names = controller.pipelines().iter().map(|one| one.generation().target.name.clone()).collect();
        if controller.targets_are(names) || are_others_selected {
            // Those that are new have heard of each source already.
            controller.enqueue_sources(&[]);
            controller.check_stores_soon();
        }
    }

    /// The providers whose clusters may be targets of a mapping, or were those of a former document.
    pub(super) fn target_providers(&self, mapping: &Mapping) -> BTreeSet<SourceClusters> {
        let Some(rule) = &mapping.target_rule else { return BTreeSet::new() };
        let is_present = |provider: &str| {
            let is_named = rule.allowed.iter().any(|name| name.split('/').next() == Some(provider));
            is_named || self.catalog.providers().any(|document| document.name == provider)
        };
        let slots = self.slots(mapping);
        let of_slots = slots.values().filter_map(|name| Some(name.split_once('/')?.0)).filter(|one| is_present(one));
        let fleet = rule.fleet.iter().map(|fleet| fleet.provider.as_str());
        of_slots.chain(fleet).map(|provider| SourceClusters::Provider(provider.to_owned())).collect()
    }

    /// A cluster that may be a target is engaged, or is another now. `true`: it is one.
    pub(super) fn target_engaged(&mut self, cluster: &Arc<Cluster>) -> bool {
        let ProviderName::Source(SourceClusters::Provider(provider)) = &cluster.provider else { return false };
        let name = format!("{provider}/{}", cluster.spec.name);
        let Some(target) = self.targets.get(&name) else { return false };
        target.set_away(false);
        if target.is_reached_by(cluster.spec.endpoint.connection()) {
            return self.engage_target(&name, cluster);
        }
        // Its provider found it anew: another credential, and nothing of the former connection counts.
        target.retire();
        self.targets.remove(&name);
        false
    }

    /// Whether clusters of a provider may be targets.
    pub(super) fn has_targets_of(&self, provider: &ProviderName) -> bool {
        let ProviderName::Source(provider @ SourceClusters::Provider(_)) = provider else { return false };
        self.entries().any(|(_, entry)| self.target_providers(&entry.mapping).contains(provider))
    }

    /// A provider no longer lists a cluster. `true`: it is a target. Nothing is deleted for that.
    pub(super) fn target_disengaged(&self, cluster: &Cluster) -> bool {
        let ProviderName::Source(SourceClusters::Provider(provider)) = &cluster.provider else { return false };
        let target = self.targets.get(&format!("{provider}/{}", cluster.spec.name));
        target.iter().for_each(|target| target.set_away(true));
        target.is_some()
    }

    /// The connection of a target: one that the command line names, or that of a provider's cluster.
    pub(super) fn connection_of(&self, target: &str) -> Option<Arc<Connection>> {
        if target.contains('/') {
            let cluster = self.cluster_of(target).filter(|cluster| is_whole(cluster))?;
            return Some(cluster.spec.endpoint.connection().clone());
        }
        self.shared.settings.connections.get(target).cloned()
    }

    /// The cluster that a target is now, as far as the registry knows it.
    pub(super) fn cluster_of(&self, target: &str) -> Option<Arc<Cluster>> {
        match target.split_once('/') {
            Some((provider, cluster)) => {
                let name = cluster.try_into().ok()?;
                self.shared.manager.cluster(&SourceClusters::Provider(provider.to_owned()), &name)
            }
            None => self.shared.manager.clusters(&ProviderName::Connection(target.to_owned())).first().cloned(),
        }
    }

    /// Two targets of a mapping that turn out to be one cluster are both left alone, until they are not.
    pub(super) fn report_doubles(&self) {
        for (_, entry) in self.catalog.mappings() {
            let name = &entry.mapping.name;
            let all: Vec<_> = self.pipelines_of(name).map(|pipeline| pipeline.generation().target.clone()).collect();
            let (what, health) = (doubles(name), &self.shared.instruments.health);
            let is_news = match double(&all) {
                None => health.remove(&what),
                Some(condition) => {
                    let why = condition.message.clone();
                    let is_news = health.set(&what, condition);
                    if is_news {
                        error!(mapping = name, why, "two targets are one cluster");
                    }
                    is_news
                }
            };
            if is_news {
                self.controllers.get(name).into_iter().for_each(|serving| serving.controller.enqueue_all());
            }
        }
    }
}

/// Which two targets of a mapping are one cluster. A cluster of a fleet holds up no roll-out.
pub(super) fn double(targets: &[Arc<Target>]) -> Option<Condition> {
    let (one, other) = aliases(targets).into_iter().next()?;
    let why = format!(
        "the targets `{}` and `{}` are one cluster: nothing is written to it; name one of them in the mapping",
        one.name, other.name
    );
    Some(Condition::of(Err(why), one.trouble().min(other.trouble())))
}

/// The clusters of a provider that may be targets of a mapping now.
pub(super) fn selected(manager: &Manager, mapping: &Mapping) -> BTreeSet<String> {
    let Some(fleet) = mapping.target_rule.as_ref().and_then(|rule| rule.fleet.as_ref()) else {
        return BTreeSet::new();
    };
    let clusters = manager.clusters(&SourceClusters::Provider(fleet.provider.clone()));
    let matches = |cluster: &&Arc<Cluster>| {
        is_whole(cluster) && fleet.matches(cluster.spec.name.as_str(), &cluster.spec.traits) == Some(true)
    };
    clusters.iter().filter(matches).map(|cluster| format!("{}/{}", fleet.provider, cluster.spec.name)).collect()
}

/// The condition of a mapping of which two targets are one cluster.
pub(super) fn doubles(mapping: &str) -> String {
    format!("mapping {mapping}: targets")
}

/// Whether a provider's cluster is one of its own: neither a namespace of one, nor a workspace that a tenant can write to.
fn is_whole(cluster: &Cluster) -> bool {
    matches!(cluster.spec.scope.clusters, ClustersOf::One(_))
}
