//! Clusters that come and go: sources are followed, targets found out about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::debug;

use super::controller::{Controller, Gone};
use super::slots::Slot;
use super::target::Target;
use super::{Engine, Pipeline, for_good};
use crate::mapping::{Kind, SourceClusters};
use crate::multicluster::manager::ClusterEvent;
use crate::multicluster::registry::{Cluster, ProviderName, Reason, WatchScope};

impl Engine {
    /// What came and went at one time. What is to run is looked at once for all of it: a whole fleet may come into sight.
    pub(super) fn clusters(&mut self, events: Vec<ClusterEvent>) {
        let (mut gone, mut others) = (Vec::new(), Vec::new());
        for event in events {
            match event {
                ClusterEvent::Disengaged(cluster, reason) => gone.push((cluster, reason)),
                event => others.push(event),
            }
        }
        // First: one that is described anew is engaged by another of these events.
        let mut is_due = self.disengaged(gone);
        let (mut changed, mut has_targets) = (BTreeSet::new(), false);
        for event in others {
            if let ClusterEvent::Engaged(cluster) | ClusterEvent::Described(cluster) = &event {
                changed.insert(cluster.provider.clone());
            }
            has_targets |= self.cluster(event);
        }
        if has_targets {
            self.report_aliases();
            self.report_doubles();
        }
        is_due |= changed.iter().any(|provider| self.has_targets_of(provider));
        if is_due {
            self.converge();
        }
    }

    /// These clusters are no longer engaged. `true`: one of them is a target.
    fn disengaged(&self, clusters: Vec<(Arc<Cluster>, Reason)>) -> bool {
        let mut gone: BTreeMap<SourceClusters, Vec<Gone>> = BTreeMap::new();
        for (cluster, reason) in clusters {
            let (name, identity) = (&cluster.spec.name, cluster.identity());
            debug!(cluster = %name, identity, workspace = cluster.spec.path, ?reason, "disengaged");
            // A target stays what it was until another cluster is known to be there.
            let ProviderName::Source(provider) = cluster.provider.clone() else { continue };
            let is_same = |scope: &WatchScope| *scope == cluster.spec.scope;
            let still_used = self.shared.manager.any_scope(&cluster.provider, is_same);
            gone.entry(provider).or_default().push(Gone { cluster, reason, still_used });
        }
        for (provider, gone) in &gone {
            self.of_provider(provider).for_each(|controller| controller.disengage(gone));
        }
        let all = || gone.values().flatten();
        if all().any(|one| !one.still_used) {
            // Those of addresses that no controller watches any more.
            let feeds = self.controllers().flat_map(|controller| controller.source_feeds());
            let places: BTreeSet<String> = feeds.map(|feed| feed.scope.endpoint.place()).collect();
            self.shared.schemas.retain(|place| places.contains(place));
        }
        all().filter(|one| self.target_disengaged(&one.cluster)).count() > 0
    }

    /// One of those that came, or that are described otherwise. `true`: a target is engaged.
    fn cluster(&mut self, event: ClusterEvent) -> bool {
        match event {
            ClusterEvent::Engaged(cluster) => {
                let (name, identity) = (&cluster.spec.name, cluster.identity());
                debug!(cluster = %name, identity, workspace = cluster.spec.path, "engaged");
                match &cluster.provider {
                    ProviderName::Connection(name) => return self.engage_target(name, &cluster),
                    ProviderName::Source(provider) => {
                        self.of_provider(provider).for_each(|controller| controller.engage(&cluster));
                        self.controllers().for_each(|controller| controller.engaged(&cluster));
                        return self.target_engaged(&cluster);
                    }
                }
            }
            ClusterEvent::Described(cluster) => {
                if let ProviderName::Source(provider) = &cluster.provider {
                    // Workspaces have claims and no traits, and other clusters have traits and no claims.
                    let has_claims = cluster.spec.claims.is_some();
                    let reads = |one: &&Arc<Controller>| has_claims || one.mapping().source.selection.is_some();
                    // Its sources are looked at again: they may pass the filter now, or no longer.
                    self.of_provider(provider).filter(reads).for_each(|controller| controller.describe(&cluster));
                }
            }
            ClusterEvent::Synced(ProviderName::Source(_)) => {
                self.controllers().for_each(|controller| controller.sources_told());
            }
            ClusterEvent::Identity(ProviderName::Source(provider), _) => {
                let pipelines = self.of_provider(&provider).flat_map(|controller| controller.pipelines());
                pipelines.for_each(|pipeline| pipeline.source_replaced());
            }
            ClusterEvent::Identity(ProviderName::Connection(_), _)
            | ClusterEvent::Synced(ProviderName::Connection(_))
            | ClusterEvent::Disengaged(..) => {}
        }
        false
    }

    /// The cluster of a target is engaged for the first time, or is replaced. `false`: it is no target.
    pub(super) fn engage_target(&mut self, name: &str, cluster: &Arc<Cluster>) -> bool {
        let Some(target) = self.targets.get(name) else { return false };
        if target.engage(cluster) {
            for pipeline in self.of_target(name) {
                pipeline.target_replaced();
                pipeline.controller.enqueue_for(&[&**pipeline]);
            }
        }
        self.target_changed(name);
        true
    }

    fn of_provider<'a>(&'a self, provider: &'a SourceClusters) -> impl Iterator<Item = &'a Arc<Controller>> {
        self.controllers().filter(move |controller| controller.mapping().source.clusters == *provider)
    }

    /// One of a mapping at most. Each of a fleet's clusters asks for those on it.
    fn of_target<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Arc<Pipeline>> {
        let of = move |mapping: &String| [Slot::of(mapping), Slot { target: name.to_owned(), ..Slot::of(mapping) }];
        let slots = self.controllers.keys().flat_map(of);
        let running = slots.filter_map(move |slot| Some(&self.pipelines.get(&slot)?.pipeline));
        running.filter(move |pipeline| pipeline.generation().target.name == name)
    }

    /// The target of this name, found out about in the background from the first time it is asked for.
    pub(super) fn target(&mut self, name: &str) -> Option<Arc<Target>> {
        if let Some(target) = self.targets.get(name) {
            return Some(target.clone());
        }
        let connection = self.connection_of(name)?;
        let target = Arc::new(Target::new(name, connection, self.locks.clone()).ok()?);
        if let Some(cluster) = self.cluster_of(name) {
            target.engage(&cluster);
        }
        self.targets.insert(name.to_owned(), target.clone());
        let (discovered, shared, events) = (target.clone(), self.shared.clone(), self.events.clone());
        self.tasks.spawn(for_good("target", move || {
            let (discovered, shared, events) = (discovered.clone(), shared.clone(), events.clone());
            async move { discovered.discover(&shared.instruments.health, &events).await }
        }));
        self.read_retained(&target);
        Some(target)
    }

    /// A target is asked no more for kinds that no document names any more, not even one that waits.
    pub(super) fn forget_kinds(&self) {
        let mut used: BTreeMap<String, BTreeSet<Kind>> = BTreeMap::new();
        let running = self.running().map(|pipeline| (pipeline.generation().target.name.clone(), pipeline));
        let waiting = self.waiting_documents().flat_map(|mapping| self.slots(mapping));
        let waiting = waiting.filter_map(|(slot, target)| Some((target, &self.pipelines.get(&slot)?.pipeline)));
        for (target, pipeline) in running.chain(waiting) {
            used.entry(target).or_default().extend(pipeline.followed_kinds());
        }
        for (name, target) in &self.targets {
            target.retain_kinds(|kind| used.get(name).is_some_and(|kinds| kinds.contains(kind)));
        }
    }

    pub(super) fn target_changed(&self, name: &str) {
        for pipeline in self.of_target(name) {
            pipeline.follow_kinds();
            pipeline.check_inventory();
            pipeline.target_told();
        }
    }
}
