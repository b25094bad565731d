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
    /// The member through which each cluster is engaged, by the identity of that.
    engaged: BTreeMap<String, ClusterName>,
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
        for (name, member) in gone {
            if let Some(spec) = member.spec.filter(|spec| self.leave(&spec.identity, &name)) {
                events.push(ProviderEvent::Gone(name, Reason::Removed));
                self.doubt_doubles(&spec.identity);
            }
        }
        for (name, member) in &mut self.members {
            let traits = traits.remove(name).unwrap_or_default();
            let is_news = std::mem::replace(&mut member.traits, traits.clone()) != traits;
            if let Some(spec) = member.spec.as_mut().filter(|_| is_news) {
                Arc::make_mut(spec).traits = traits;
                let is_engaged = self.engaged.get(&spec.identity) == Some(name);
                events.extend(is_engaged.then(|| ProviderEvent::Apply(spec.clone())));
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
            let spec = Arc::new(ClusterSpec { traits: member.traits.clone(), ..spec });
            let former = member.spec.replace(spec.clone()).map(|former| former.identity.clone());
            let left = former.filter(|former| *former != spec.identity && self.leave(former, name));
            match self.engaged.get(&spec.identity) {
                Some(other) if other != name => {
                    events.extend(left.is_some().then(|| ProviderEvent::Gone(name.clone(), Reason::Replaced)));
                }
                _ => {
                    self.engaged.insert(spec.identity.clone(), name.clone());
                    events.push(ProviderEvent::Apply(spec));
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
        self.engaged.get(&spec.identity).filter(|other| *other != name)
    }

    /// The cluster of this identity is engaged through this member no more. `true`: it was.
    fn leave(&mut self, identity: &str, name: &ClusterName) -> bool {
        let was_engaged = self.engaged.get(identity) == Some(name);
        if was_engaged {
            self.engaged.remove(identity);
        }
        was_engaged
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::tests::connection;
    use crate::registry::{ClustersOf, WatchScope};

    /// What it is, and which members it names: those that lead to one cluster are engaged through one of them.
    #[test]
    fn a_cluster_is_engaged_through_one_member_until_that_leads_elsewhere_or_goes() {
        let name = |name: &str| ClusterName::try_from(name).expect("a name");
        let connection = connection();
        let leads_to = |member: &str, identity: &str| {
            let endpoint = connection.endpoint();
            let scope = WatchScope { endpoint: endpoint.clone(), clusters: ClustersOf::One(name(member)) };
            Some(ClusterSpec::new(name(member), identity.into(), endpoint, scope))
        };
        let words = |events: Vec<ProviderEvent>| {
            let word = |event: &ProviderEvent| match event {
                ProviderEvent::Apply(spec) => format!("+{} {}", spec.name, spec.identity),
                ProviderEvent::Gone(name, reason) => format!("-{name} {reason:?}"),
                other => format!("{other:?}"),
            };
            events.iter().map(word).collect::<Vec<_>>().join(", ")
        };
        let all = ["a", "b", "c"].map(name);
        let mut members = FleetMembers::default();
        assert_eq!(words(members.list(&all.clone().into(), BTreeMap::new(), true)), "");
        assert_eq!(words(members.tell(&all[0], leads_to("a", "1"))), "+a 1");
        assert_eq!(words(members.tell(&all[1], leads_to("b", "1"))), "");
        assert_eq!(members.double_of(&all[1]), Some(&all[0]));
        assert_eq!(words(members.tell(&all[2], leads_to("c", "2"))), "+c 2, Synced");
        assert_eq!(words(members.tell(&all[0], leads_to("a", "2"))), "-a Replaced");
        assert_eq!(members.double_of(&all[0]), Some(&all[2]));
        assert_eq!(Vec::from_iter(members.take_doubtful()), [all[1].clone()], "it may be needed");
        assert_eq!(words(members.tell(&all[1], leads_to("b", "1"))), "+b 1");
        let left = all[..2].iter().cloned().collect();
        assert_eq!(words(members.list(&left, BTreeMap::new(), true)), "-c Removed");
        assert_eq!(words(members.tell(&all[0], leads_to("a", "2"))), "+a 2");
        assert_eq!((members.double_of(&all[0]), members.double_of(&all[1])), (None, None));
    }
}
