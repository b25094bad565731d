//! Who asked for the deletion of a copy of a Secret.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use sync_engine::sandbox::{ChangeKind, Event};

use super::super::mapping::{CONN, COPY, ITEMS, MORE, Mapping, More, NAMESPACES, PASSWORD};
use super::super::records::{Made, Source};
use super::super::server::Side;
use super::{Checker, GRACE, SecretKey};

impl Checker {
    /// Whether some source needs a shared copy, without any doubt: it lives, it names the original, it has objects beside the
    /// copy, and no document says otherwise.
    pub(super) fn is_used(&self, at: Duration, made: &Made) -> bool {
        let lately = self.lately(at);
        let is_beside = |other: &Made| {
            !other.is_shared
                && other.side == made.side
                && (&other.owner.engine, &other.owner.mapping) == (&made.owner.engine, &made.owner.mapping)
                && other.namespace == made.namespace
                && other.remains()
                && !(other.is_copy() && self.has_moved(at, other))
        };
        let users: BTreeSet<&str> =
            self.made.values().filter(|other| is_beside(other)).map(|other| other.source_uid.as_str()).collect();
        let is_said = |source: &Source, edition: Option<&Mapping>| match edition {
            Some(one) => {
                one.name == made.owner.mapping
                    && one.shares()
                    && one.resource == source.resource
                    && !one.lately_left(source, lately)
            }
            None => false,
        };
        users.into_iter().filter_map(|uid| self.sources.get(uid)).any(|source| {
            source.is_alive()
                && !source.was_asked(at)
                && source.secrets.lately(lately).all(|name| *name == made.name)
                && self.ruling(at, made).all(|edition| is_said(source, edition))
                // A source that lost its finalizer counts no more.
                && source.is_held()
        })
    }

    /// Whether a copy of several has left its list: its original is selected no more, or its item is gone.
    pub(super) fn has_left_list(&self, at: Duration, made: &Made, mapping: &Mapping, source: Option<&Source>) -> bool {
        let Some(key) = made.key().filter(|_| made.rule_id() == MORE.id) else { return false };
        let lately = self.lately(at);
        match mapping.more {
            More::Shared => true,
            More::Each => key != ITEMS[0] && source.is_none_or(|source| source.extra.was(false, lately)),
            More::Selected => {
                let is_it = |(side, cluster, _, name): &SecretKey| {
                    *side == Side::Source && source.is_none_or(|source| source.place[0] == *cluster) && name == key
                };
                let mut histories = self.selected.iter().filter(|(key, _)| is_it(key)).map(|(_, history)| history);
                histories.all(|history| history.lately(lately).any(|selected| !selected))
            }
        }
    }

    /// Whether an object is a source's: one that was created anew takes over what the one before it had.
    pub(super) fn is_of(&self, made: &Made, uid: &str) -> bool {
        let follows =
            |former: &Source| self.sources.get(uid).is_some_and(|source| source.follows(made, &former.resource));
        made.is_shared || made.source_uid == uid || self.sources.get(&made.source_uid).is_some_and(follows)
    }

    /// Whether a copy may follow its original by deletion and creation alone: it has another type, or is immutable.
    pub(super) fn may_be_recreated(&self, at: Duration, made: &Made) -> bool {
        let lately = self.lately(at);
        let is_its = |(uid, _): &(&String, &Source)| self.is_of(made, uid);
        let sources: Vec<&Source> = self.sources.iter().filter(is_its).map(|(_, source)| source).collect();
        let is_original = |(side, cluster, _, name): &SecretKey| match made.id == PASSWORD.id {
            true => {
                let is_named = |source: &Source| source.secrets.lately(lately).any(|one| one == name);
                let is_here = |source: &&Source| source.place[0] == *cluster && is_named(source);
                *side == Side::Source && sources.iter().any(is_here)
            }
            false if made.rule_id() == MORE.id => {
                let is_here = |source: &&Source| source.place[0] == *cluster;
                *side == Side::Source && name == made.key().unwrap_or(&made.name) && sources.iter().any(is_here)
            }
            false => *side == Side::Target && *name == format!("{}{CONN}", made.owner.name),
        };
        let originals = self.secrets.iter().filter(|(key, _)| is_original(key));
        let mut types = originals.flat_map(|(_, types)| types.lately(lately)).flatten();
        made.is_immutable || types.any(|kind| *kind != made.secret_type)
    }

    /// Whether a cluster accepts the permission claim for Secrets from now on.
    pub fn claimed(&mut self, at: Duration, cluster: String, accepted: bool) {
        self.claims.entry(cluster).or_default().note(at, accepted);
    }

    /// Whether an object is beside its source, and the engine may have been kept from it a moment ago.
    pub(super) fn is_out_of_reach(&self, at: Duration, made: &Made) -> bool {
        let lately = |since: Duration| since.saturating_add(GRACE) >= at;
        let claims = self.claims.get(&made.owner.cluster).filter(|_| made.side == Side::Source);
        claims.is_some_and(|claims| claims.lately(lately).any(|accepted| !accepted))
    }

    /// Whether a cluster ever took the permission claim for Secrets back.
    pub fn was_unclaimed(&self, cluster: &str) -> bool {
        self.claims.get(cluster).is_some_and(|claims| claims.ever(&false))
    }

    /// Whether the source of a copy has objects in another namespace too, or goes there: it had none but copies here a moment ago.
    pub(super) fn has_moved(&self, at: Duration, made: &Made) -> bool {
        let beside = || {
            let of_source = |other: &&Made| (other.side, &other.owner) == (made.side, &made.owner) && other.remains();
            self.made.values().filter(of_source)
        };
        let [_, other] = NAMESPACES;
        let gives = |mapping: &Mapping| made.namespace.ends_with(other) == (mapping.namespace == other);
        let of_file = self.of_file(made).filter(|mapping| mapping.name == made.owner.mapping);
        let mut documents = self.last_of(&made.owner.mapping).into_iter().chain(of_file);
        let lately = self.lately(at);
        let stays = beside().any(|other| !other.is_copy() && other.namespace == made.namespace && !lately(other.since));
        beside().any(|other| other.namespace != made.namespace) || !stays && documents.any(|mapping| !gives(mapping))
    }

    /// Notes the type of a Secret, and whether it is selected.
    pub(super) fn note_type(&mut self, at: Duration, side: Side, event: &Event) {
        let text = |text: &str| text.to_owned();
        let key = (side, text(&event.key.cluster), text(&event.key.namespace), text(&event.key.name));
        let kind = event.object.object()["type"].as_str().map(str::to_owned);
        let is_there = event.kind != ChangeKind::Deleted;
        let is_selected = is_there && is_selected(&event.object.object());
        self.selected.entry(key.clone()).or_default().note(at, is_selected);
        self.secrets.entry(key).or_default().note(at, kind.filter(|_| is_there));
    }
}

/// Whether a Secret has the label by which they are selected.
pub(super) fn is_selected(secret: &Value) -> bool {
    secret["metadata"]["labels"][COPY] == "yes"
}
