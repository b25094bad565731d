//! Which of the clusters that several kubeconfigs lead to are engaged: each once, however many lead to it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::multicluster::registry::{ClusterSpec, ProviderEvent, Reason};
use crate::object::ClusterName;

/// The members of a fleet, and what is known of each.
#[derive(Debug, Default)]
pub struct Roll {
    /// `None` until the members were listed for the first time.
    members: Option<BTreeMap<ClusterName, Member>>,
    synced: bool,
}

#[derive(Debug, Default)]
struct Member {
    /// It answered, or failed to, at least once.
    asked: bool,
    spec: Option<ClusterSpec>,
    engaged: bool,
}

impl Roll {
    /// These are all members now. Who is no longer among them is no longer in sight; its objects stay.
    pub fn list(&mut self, names: &BTreeSet<ClusterName>) -> Vec<ProviderEvent> {
        let members = self.members.get_or_insert_default();
        let gone: Vec<(ClusterName, Member)> = members.extract_if(.., |name, _| !names.contains(name)).collect();
        for name in names {
            members.entry(name.clone()).or_default();
        }
        let mut events = Vec::new();
        for (name, member) in gone.into_iter().filter(|(_, member)| member.engaged) {
            events.push(ProviderEvent::Gone(name, Reason::Removed));
            events.extend(member.spec.and_then(|spec| self.engage_one(&spec.identity)));
        }
        events.extend(self.sync());
        events
    }

    /// What a member leads to now; `None`: it did not answer, so it stays what it was.
    pub fn tell(&mut self, name: &ClusterName, spec: Option<ClusterSpec>) -> Vec<ProviderEvent> {
        let Some(member) = self.members.as_mut().and_then(|members| members.get_mut(name)) else { return Vec::new() };
        member.asked = true;
        let mut events = Vec::new();
        if let Some(spec) = spec {
            let identity = spec.identity.clone();
            let former = member.spec.replace(spec).map(|former| former.identity);
            let left = former.filter(|former| member.engaged && *former != identity);
            let is_taken = self.engaged(&identity).is_some_and(|other| other != name);
            let member = self.members.as_mut().and_then(|members| members.get_mut(name));
            if let Some(member) = member {
                let was_engaged = std::mem::replace(&mut member.engaged, !is_taken);
                match (&member.spec, is_taken) {
                    (Some(spec), false) => events.push(ProviderEvent::Apply(Box::new(spec.clone()))),
                    _ if was_engaged => events.push(ProviderEvent::Gone(name.clone(), Reason::Replaced)),
                    _ => {}
                }
            }
            events.extend(left.and_then(|former| self.engage_one(&former)));
        }
        events.extend(self.sync());
        events
    }

    /// Whether it is known which cluster a member leads to.
    pub fn is_known(&self, name: &ClusterName) -> bool {
        self.members.as_ref().and_then(|members| members.get(name)).is_some_and(|member| member.spec.is_some())
    }

    /// The member through which the cluster of this one is engaged, if that is another.
    pub fn double_of(&self, name: &ClusterName) -> Option<&ClusterName> {
        let spec = self.members.as_ref()?.get(name)?.spec.as_ref()?;
        self.engaged(&spec.identity).filter(|other| *other != name)
    }

    /// The member through which the cluster of this identity is engaged.
    fn engaged(&self, identity: &str) -> Option<&ClusterName> {
        let mut engaged = self.members.iter().flatten().filter(|(_, member)| member.engaged);
        engaged
            .find(|(_, member)| member.spec.as_ref().is_some_and(|spec| spec.identity == identity))
            .map(|(name, _)| name)
    }

    /// The one that engaged this cluster is gone: the next one does.
    fn engage_one(&mut self, identity: &str) -> Option<ProviderEvent> {
        let leads = |member: &Member| member.spec.as_ref().is_some_and(|spec| spec.identity == identity);
        let member = self.members.as_mut()?.values_mut().find(|member| leads(member))?;
        member.engaged = true;
        member.spec.clone().map(|spec| ProviderEvent::Apply(Box::new(spec)))
    }

    /// Once every member was asked: one that does not answer keeps nobody waiting for good.
    fn sync(&mut self) -> Option<ProviderEvent> {
        let complete = !self.synced && self.members.as_ref()?.values().all(|member| member.asked);
        self.synced |= complete;
        complete.then_some(ProviderEvent::Synced)
    }
}
