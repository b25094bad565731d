//! Which of the clusters that several kubeconfigs lead to are engaged: each once, however many lead to it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::registry::{ClusterSpec, ProviderEvent, Reason};
use sync_engine_mapping::Traits;
use sync_engine_mapping::object::ClusterName;

/// The members of a fleet, and what is known of each.
#[derive(Debug, Default)]
pub struct FleetMembers {
    members: BTreeMap<ClusterName, Member>,
    /// Whether every member was listed once.
    complete: bool,
    synced: bool,
    /// Members that were not used, because another led to the same cluster, and may be needed now: which cluster they lead to
    /// has to be confirmed first. The one that left may have done so because the cluster is another.
    doubtful: BTreeSet<ClusterName>,
}

#[derive(Debug, Default)]
struct Member {
    /// It answered, or failed to, at least once.
    asked: bool,
    spec: Option<Arc<ClusterSpec>>,
    traits: Traits,
    engaged: bool,
}

impl FleetMembers {
    /// These are the members now; `is_complete`: all of them were listed once. Who is no longer among them is no longer in
    /// sight; its objects stay.
    pub fn list(
        &mut self,
        names: &BTreeSet<ClusterName>,
        mut traits: BTreeMap<ClusterName, Traits>,
        is_complete: bool,
    ) -> Vec<ProviderEvent> {
        self.complete |= is_complete;
        let gone: Vec<(ClusterName, Member)> = self.members.extract_if(.., |name, _| !names.contains(name)).collect();
        for name in names {
            self.members.entry(name.clone()).or_default();
        }
        let mut events = Vec::new();
        for (name, member) in gone.into_iter().filter(|(_, member)| member.engaged) {
            events.push(ProviderEvent::Gone(name, Reason::Removed));
            if let Some(spec) = member.spec {
                self.doubt_doubles(&spec.identity);
            }
        }
        for (name, member) in &mut self.members {
            let traits = traits.remove(name).unwrap_or_default();
            let is_news = std::mem::replace(&mut member.traits, traits.clone()) != traits;
            if let Some(spec) = member.spec.as_mut().filter(|_| is_news) {
                Arc::make_mut(spec).traits = traits;
                events.extend(member.engaged.then(|| ProviderEvent::Apply(spec.clone())));
            }
        }
        events.extend(self.sync());
        events
    }

    /// What a member leads to now; `None`: it did not answer, so it stays what it was.
    pub fn tell(&mut self, name: &ClusterName, spec: Option<ClusterSpec>) -> Vec<ProviderEvent> {
        let Some(member) = self.members.get_mut(name) else { return Vec::new() };
        member.asked = true;
        let mut events = Vec::new();
        if let Some(spec) = spec {
            let spec = ClusterSpec { traits: member.traits.clone(), ..spec };
            let identity = spec.identity.clone();
            let former = member.spec.replace(Arc::new(spec)).map(|former| former.identity.clone());
            let left = former.filter(|former| member.engaged && *former != identity);
            let is_taken = self.engaged(&identity).is_some_and(|other| other != name);
            if let Some(member) = self.members.get_mut(name) {
                let was_engaged = std::mem::replace(&mut member.engaged, !is_taken);
                match (&member.spec, is_taken) {
                    (Some(spec), false) => events.push(ProviderEvent::Apply(spec.clone())),
                    _ if was_engaged => events.push(ProviderEvent::Gone(name.clone(), Reason::Replaced)),
                    _ => {}
                }
            }
            if let Some(former) = left {
                self.doubt_doubles(&former);
            }
        }
        events.extend(self.sync());
        events
    }

    /// Whether it is known which cluster a member leads to.
    pub fn is_known(&self, name: &ClusterName) -> bool {
        self.members.get(name).is_some_and(|member| member.spec.is_some())
    }

    /// The member through which the cluster of this one is engaged, if that is another.
    pub fn double_of(&self, name: &ClusterName) -> Option<&ClusterName> {
        let spec = self.members.get(name)?.spec.as_ref()?;
        self.engaged(&spec.identity).filter(|other| *other != name)
    }

    /// The member through which the cluster of this identity is engaged.
    fn engaged(&self, identity: &str) -> Option<&ClusterName> {
        let mut engaged = self.members.iter().filter(|(_, member)| member.engaged);
        engaged
            .find(|(_, member)| member.spec.as_ref().is_some_and(|spec| spec.identity == identity))
            .map(|(name, _)| name)
    }

    /// The one through which this cluster was engaged is not any more.
    fn doubt_doubles(&mut self, identity: &str) {
        let leads = |member: &Member| member.spec.as_ref().is_some_and(|spec| spec.identity == identity);
        let doubles = self.members.iter().filter(|(_, member)| leads(member));
        self.doubtful.extend(doubles.map(|(name, _)| name.clone()));
    }

    /// The members that have to be asked again which cluster they lead to.
    pub fn take_doubtful(&mut self) -> BTreeSet<ClusterName> {
        std::mem::take(&mut self.doubtful)
    }

    /// Once every member was asked: one that does not answer keeps nobody waiting for good.
    fn sync(&mut self) -> Option<ProviderEvent> {
        let is_news = !self.synced && self.complete && self.members.values().all(|member| member.asked);
        self.synced |= is_news;
        is_news.then_some(ProviderEvent::Synced)
    }
}
