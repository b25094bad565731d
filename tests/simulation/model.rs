//! What the world should look like once everything is quiet: mapping times sources, and nothing else.

use std::collections::BTreeMap;

use serde_json::Value;

use super::action::{Action, Forever, LONGEST};
use super::checker::state_store;
use super::mapping::{
    CA, CONN, CONNECTION, COPY, FIELD, GUEST, ITEMS, MADE, MORE, Mapping, More, NAMESPACES, PASSWORD, READS, Rule,
    Spread, TRANSFORMED, Wanted, base64, contents, guest, placement,
};
use super::records::{Made, Source, finalizer, is_sent_to};
use super::server::Side;
use super::world::{File, SourceKey, World, side_of, text};

/// What is not as it should be.
pub fn differences(world: &World) -> Vec<String> {
    let sources = world.sources();
    let made = world.shared.lock().checker.made.clone();
    let target = world.target_objects().into_iter().map(|object| (place_of(&object), object)).collect();
    let view = View { world, mapping: &world.mapping, is_ahead: false, target, secrets: world.secrets(), made };
    // Where a release stands still in the middle, some sources follow the candidate.
    let candidate = world.shared.lock().checker.candidate(world.mapping.name).cloned();
    let ahead = candidate.as_ref().map(|mapping| View { mapping, is_ahead: true, ..view.clone() });
    let mut found = Vec::new();
    let is_enforced = world.mapping.mode == "Enforce";
    for (key, source) in &sources {
        if view.is_cut_off(&key.cluster) {
            continue;
        }
        if !source["metadata"]["deletionTimestamp"].is_null() {
            if view.is_held_for_ever(source) || world.marked.contains(&text(source, "uid")) {
                continue;
            }
            // Where the records are lost, nobody knows the mapping any more.
            let is_served = world.mapping.mode != "Observe"
                && (!world.target_restored || (world.file == File::Whole && !world.other_served()));
            if is_served {
                found.push(format!("the deletion of {} {} never ends", key.resource, key.name));
            }
        } else if key.resource == world.mapping.resource && world.file == File::Whole && is_enforced {
            let differences = view.of_source(key, source);
            let follows_candidate = || ahead.as_ref().is_some_and(|ahead| ahead.of_source(key, source).is_empty());
            if !differences.is_empty() && !follows_candidate() {
                found.extend(differences);
            }
        }
        // Marks from before a mapping block the source that carries them, and no other.
        let is_blocked = world.marked.contains(&text(source, "uid"));
        let is_guests = world.has_guest()
            && world.file == File::Whole
            && key.resource == guest(world.plan.is_beside).resource
            && !is_blocked;
        if is_guests && source["metadata"]["deletionTimestamp"].is_null() {
            found.extend(view.of_guest(key, source));
        }
    }
    found.extend(view.unused(&sources));
    found.extend(view.waits_for_nothing(&sources));
    found.extend(view.names_missing_kind());
    if !world.forgot {
        let released = world.shared.lock().checker.released.clone();
        // Where the workspace is gone too, or the cluster was rebuilt, nobody is there any more to delete what came late.
        let outlives = |made: &&Made| {
            let cluster = &made.owner.cluster;
            let is_known = made.side.is_target() || !made.is_left && !view.is_out_of_reach(made);
            let is_there = world.plan.is_kcp || world.identity(cluster) == *cluster;
            let is_reached = is_there && world.is_served(cluster) && is_known && !view.is_cut_off(cluster);
            // What came late for a source of the same name before it is up to `onSourceRecreated`.
            let follows = |key: &SourceKey| {
                let here = !world.plan.is_kcp || made.owner.cluster == key.cluster;
                here && made.owner.name == key.name && view.is_same_resource(made, key)
            };
            let is_followed = sources.keys().any(follows);
            // Who was let go of saw no deletion: another engine released the source.
            let is_let_go =
                || view.is_known(&made.source_uid, |one| one.lets_go_of(&made.owner.engine, &made.owner.mapping));
            made.remains() && released.contains(&made.source_uid) && is_reached && !is_followed && !is_let_go()
        };
        found.extend(view.made.values().filter(outlives).map(|made| format!("{} outlives its source", made.place())));
    }
    found
}

/// Server, cluster (where objects are beside their sources in kcp), kind, namespace and name.
type Place = (Side, String, String, String, String);

#[derive(Clone)]
struct View<'a> {
    world: &'a World,
    /// What sources follow.
    mapping: &'a Mapping,
    /// It is a candidate: what goes with the document in force is still there.
    is_ahead: bool,
    /// What mappings make, where it is.
    target: BTreeMap<Place, Value>,
    /// The Secrets beside the sources, by cluster and name.
    secrets: BTreeMap<(String, String), Value>,
    made: BTreeMap<String, Made>,
}

/// How one wanted object is.
enum Found {
    InOrder,
    Missing,
    /// Something holds it up that the source must tell.
    HeldUp,
    /// `Synced` may tell it, or not.
    Unclear,
    Wrong(String),
}

impl Found {
    /// The same of a copy, which has the type of its original.
    fn with_type(self, copy: Option<&Value>, original: &Value) -> Self {
        match self {
            Self::InOrder if copy.is_some_and(|copy| copy["type"] != original["type"]) => {
                Self::Wrong("is of another type".into())
            }
            found => found,
        }
    }
}

impl View<'_> {
    /// What is wrong with the objects of one source.
    fn of_source(&self, key: &SourceKey, source: &Value) -> Vec<String> {
        if !self.mapping.selects(source) {
            return self.of_unselected(key, source);
        }
        let mapping = self.mapping;
        if self.has_stayed(key, source) {
            return Vec::new();
        }
        let on_side = |side: &Side| mapping.objects(*side, &self.namespace(*side, key), source);
        let wanted: Vec<Wanted> = mapping.sides(source).iter().flat_map(on_side).collect();
        // What it may have on a target that it has left is told as long as that cannot be reached.
        let is_lost = |side: &Side| self.is_away(*side) && is_sent_to(source, *side);
        let (mut found, mut held_up, mut unclear) = (Vec::new(), [Side::Second].iter().any(is_lost), false);
        let of_rule = |rule| match rule {
            &MORE => self.of_more(key, source),
            rule => vec![self.of_copy(rule, key, source)],
        };
        let copies: Vec<(&Rule, Found)> =
            mapping.related.iter().flat_map(|rule| of_rule(rule).into_iter().map(move |found| (rule, found))).collect();
        let is_password = |(rule, copy): &(&Rule, Found)| rule.id == PASSWORD.id && !matches!(copy, Found::InOrder);
        let waits_for_copy = copies.iter().any(is_password);
        let lacks_first = |side: Side| {
            let mut first = wanted.iter().filter(|one| one.side == side && one.id == mapping.rules[0].id);
            let found = first.next().map(|one| self.of_object(mapping, key, source, one));
            matches!(found, Some(Found::HeldUp | Found::Missing))
        };
        let has_copy = self.owned(mapping, key).any(|made| made.id == PASSWORD.id);
        let of_object = |one: &Wanted| match self.of_object(mapping, key, source, one) {
            // Of one target that is out of sight, the status stays as it was.
            _ if self.is_away(one.side) && mapping.spread == Spread::Choice => Found::Unclear,
            _ if self.is_away(one.side) => Found::HeldUp,
            Found::Missing if one.id == CA.id && (waits_for_copy || lacks_first(one.side)) => Found::HeldUp,
            // A change waits for what it refers to.
            Found::Wrong(_) if one.id == CA.id && waits_for_copy && !has_copy => Found::HeldUp,
            found => found,
        };
        let objects: Vec<_> = wanted.iter().map(|one| (one.id, one.kind, one.name.as_str(), of_object(one))).collect();
        // Nothing is read back while an object of the source is not its own.
        let is_unread = objects.iter().any(|(.., one)| matches!(one, Found::HeldUp | Found::Missing | Found::Unclear));
        let copies = copies.into_iter().map(|(rule, copy)| match copy {
            Found::Missing | Found::Wrong(_) if is_unread && rule.id == CONNECTION.id => {
                (rule.id, rule.kind, "", Found::HeldUp)
            }
            copy => (rule.id, rule.kind, "", copy),
        });
        for (id, kind, name, one) in copies.chain(objects) {
            match one {
                Found::Missing | Found::Wrong(_) if self.is_broken(kind, name) => held_up = true,
                Found::InOrder => {}
                Found::HeldUp => held_up = true,
                Found::Unclear => unclear = true,
                Found::Missing => found.push(format!("{id} of {} {} is missing", key.resource, key.name)),
                Found::Wrong(why) => found.push(format!("{id} of {} {} {why}", key.resource, key.name)),
            }
        }
        unclear |= mapping.max_lost == 0 || (mapping.status.contains("edition") && !self.world.has_edition());
        let synced = synced(source).unwrap_or("missing");
        let should = if held_up { "False" } else { "True" };
        if synced != should && !unclear {
            found.push(format!("`Synced` of {} {} should be {should} and is {synced}", key.resource, key.name));
        }
        let needs_claim = mapping.copies(PASSWORD.id) || mapping.is_beside;
        let lacks_claim = needs_claim && !self.world.is_claimed(&key.cluster);
        let reason = reason(source).unwrap_or_default();
        if lacks_claim && !unclear && !WORSE_THAN_A_CLAIM.contains(&reason) && reason != "ClaimNotAccepted" {
            found.push(format!("{} {} needs a claim, and `Synced` says {reason}", key.resource, key.name));
        }
        if found.is_empty() && !held_up && !unclear {
            found.extend(self.of_status(key, source, &wanted));
        }
        let leftover = |made: &&Made| {
            !self.is_retained(made)
                && !wanted.iter().any(|one| one.side == made.side && one.id == made.id || made.is_at(one))
                && (!mapping.copies(made.rule_id()) || self.has_left_list(made, key, source))
                && !self.is_out_of_reach(made)
                && !wanted.iter().any(|one| self.is_away(one.side))
                && !self.is_broken("", &made.name)
        };
        // What another mapping made, which has this one's name no longer, is up to its `onMappingRemoved`.
        let is_its_own = |made: &&Made| made.owner.mapping == mapping.name;
        // Where a changed document may delete nothing, a person decides.
        for made in
            self.made_of(source).filter(is_its_own).filter(leftover).filter(|_| mapping.max_lost > 0 && !self.is_ahead)
        {
            found.push(format!("{} of {} {} is no longer wanted and remains", made.id, key.resource, key.name));
        }
        found
    }

    /// What is wrong with the object of the mapping beside, which takes every source and reports nothing.
    fn of_guest(&self, key: &SourceKey, source: &Value) -> Option<String> {
        let guest = guest(self.world.plan.is_beside);
        let (side, namespace) = match guest.is_beside {
            true => (Side::Source, key.namespace.clone()),
            false => (Side::Target, placement(&self.world.identity(&key.cluster), &key.namespace)),
        };
        let wanted = guest.objects(side, &namespace, source).pop()?;
        match self.of_object(&guest, key, source, &wanted) {
            Found::Missing | Found::Wrong(_) if self.is_broken(wanted.kind, &wanted.name) => None,
            Found::Missing => Some(format!("the guest of {} {} is missing", key.resource, key.name)),
            Found::Wrong(why) => Some(format!("the guest of {} {} {why}", key.resource, key.name)),
            _ => None,
        }
    }

    /// Whether the mapping that made it has another name now, and what it made stays.
    fn is_retained(&self, made: &Made) -> bool {
        let core = self.world.shared.lock();
        let last = core.checker.last_of(&made.owner.mapping);
        made.owner.mapping != self.mapping.name && last.is_none_or(|last| last.on_mapping_removed != "Delete")
    }

    /// Whether a source stays on a target that the mapping no longer gives: what it has there stays as it is. So does what is on
    /// a target that the source no longer names.
    fn has_stayed(&self, key: &SourceKey, source: &Value) -> bool {
        let mapping = self.mapping;
        let given = mapping.sides(source);
        let is_there =
            |side: &Side| is_sent_to(source, *side) || self.owned(mapping, key).any(|made| made.side == *side);
        let is_former = |side: &Side| !given.contains(side) && is_there(side);
        // Nor does it leave a target of which nobody can tell whether anything is left there.
        let may_stay = |side: &Side| {
            mapping.spread == Spread::Choice && (mapping.on_target_change == "Block" || self.is_away(*side))
        };
        let has_forgotten = self.world.has_forgotten_targets();
        let is_forgotten = |side: &Side| has_forgotten && is_former(side) && !is_sent_to(source, *side);
        let has_several = mapping.spread != Spread::One;
        let stays = |side: &Side| may_stay(side) && is_former(side) || has_several && is_forgotten(side);
        [Side::Target, Side::Second].iter().any(stays)
    }

    /// Where the objects of a source are: where some of them are already, or where today's rule puts them.
    fn namespace(&self, side: Side, key: &SourceKey) -> String {
        if self.world.plan.is_beside {
            return key.namespace.clone();
        }
        let default = placement(&self.world.identity(&key.cluster), &key.namespace);
        let place = |suffix: &str| format!("{default}{suffix}");
        let used =
            |place: &String| self.owned(self.mapping, key).any(|made| made.side == side && made.namespace == *place);
        let (current, places) = (place(self.mapping.namespace), NAMESPACES.map(place));
        let former = places.into_iter().find(|place| *place != current && used(place) && !used(&current));
        former.unwrap_or(current)
    }

    /// What the consumer reads of the first object.
    fn of_status(&self, key: &SourceKey, source: &Value, wanted: &[Wanted]) -> Vec<String> {
        let mapping = self.mapping;
        let first = wanted.iter().rfind(|one| one.id == mapping.rules[0].id);
        let object = first
            .and_then(|one| self.at(one.side, key, one.kind, &one.namespace, &one.name))
            .cloned()
            .unwrap_or_default();
        let mut found = Vec::new();
        // A field that only another mapping wrote stays, and what a server forgot or brought back that was put back.
        let is_of_another = |made: &Made| ![mapping.name, GUEST].contains(&made.owner.mapping.as_str());
        let may_be_left =
            self.world.target_restored || self.world.source_restored || self.made.values().any(is_of_another);
        for field in ["size", "edition"] {
            let is_known = field == "size" || self.world.has_edition();
            let expected = if mapping.status.contains(field) { object["data"][field].clone() } else { Value::Null };
            let actual = &source["status"][field];
            if expected.is_null() && may_be_left {
                continue;
            }
            if is_known && object["kind"] != "Secret" && *actual != expected {
                let (resource, name) = (key.resource, &key.name);
                found.push(format!("the status of {resource} {name} should have {field} {expected} and has {actual}"));
            }
        }
        let (generation, observed) = (&source["metadata"]["generation"], &source["status"]["observedGeneration"]);
        if generation != observed {
            let (resource, name) = (key.resource, &key.name);
            found.push(format!("{resource} {name} is of generation {generation} and says that {observed} is observed"));
        }
        found
    }

    /// Whether the workspace answers nothing for ever.
    fn is_cut_off(&self, cluster: &str) -> bool {
        matches!(self.world.plan.forever, Some(Forever::Workspace(tenant)) if self.world.cluster(tenant) == cluster)
    }

    /// Whether a target is away for ever.
    fn is_away(&self, side: Side) -> bool {
        let is_up = || self.world.shared.lock().server(side).up;
        side == Side::Second && self.world.plan.forever == Some(Forever::Second) && !is_up()
    }

    /// Whether nothing can be written there for ever.
    fn is_broken(&self, kind: &str, name: &str) -> bool {
        match self.world.plan.forever {
            Some(Forever::Refusal(refused)) => refused == name,
            Some(Forever::NoWidgets | Forever::Unserved) => kind == "Widget",
            _ => false,
        }
    }

    /// Whether an object of a source that is being deleted can never be deleted, or never be looked for: it may be on any target,
    /// where somebody took their names off the source.
    fn is_held_for_ever(&self, source: &Value) -> bool {
        let finalizers = source["metadata"]["finalizers"].to_string();
        let is_its = |name: &&str| finalizers.contains(&finalizer("main", name));
        let is_by_unread_document = || self.world.without_document.iter().any(is_its);
        let names_none = || [Side::Target, Side::Second].iter().all(|side| !is_sent_to(source, *side));
        let may_be_on_second =
            || is_sent_to(source, Side::Second) || self.world.pins_lost && names_none() || is_by_unread_document();
        self.world.plan.forever == Some(Forever::Unserved)
            || self.is_away(Side::Second) && may_be_on_second()
            || self.made_of(source).any(|made| self.is_broken("", &made.name))
    }

    fn of_unselected(&self, key: &SourceKey, source: &Value) -> Vec<String> {
        // What it has is orphaned, and nothing of it is told any more.
        if self.is_known(&text(source, "uid"), |known| known.lets_go_of("main", self.mapping.name)) {
            return Vec::new();
        }
        let status = self.of_status_of_unselected(key, source);
        status.into_iter().chain(self.of_objects_of_unselected(key, source)).collect()
    }

    /// A source that was selected says that it is so no more.
    fn of_status_of_unselected(&self, key: &SourceKey, source: &Value) -> Option<String> {
        let mapping = self.mapping;
        let finalizer = finalizer("main", mapping.name);
        // What another mapping said of it, it said to the end.
        let was_held = self.is_known(&text(source, "uid"), |known| known.was_held.contains(&finalizer))
            && !self.world.shared.lock().checker.ever(|other| other.name != mapping.name);
        // What is beside a source that is let go while the claim is taken back belongs to the consumer.
        let may_be_forgotten = |made: &Made| {
            let was_unclaimed = || self.world.shared.lock().checker.was_unclaimed(&made.owner.cluster);
            self.is_out_of_reach(made) || made.side == Side::Source && was_unclaimed()
        };
        let (resource, name) = (key.resource, &key.name);
        match (synced(source), reason(source).unwrap_or_default()) {
            _ if !was_held => None,
            // Its process ended between the finalizer and the first status, or the server lost that: there is nothing to take back.
            _ if source["status"].is_null() => None,
            (Some("False"), "NotSelected") => self
                .made_of(source)
                .find(|made| {
                    // What came late is orphaned, and counted as that.
                    let is_late = || self.world.shared.lock().checker.is_late(made);
                    let is_retained = made.owner.mapping == mapping.name && mapping.on_exit == "Retain";
                    is_retained && !may_be_forgotten(made) && !is_late()
                })
                .map(|made| {
                    format!("{resource} {name} is not selected, and does not say that it keeps {}", made.place())
                }),
            (Some("False"), _) => None,
            (synced, why) => Some(format!(
                "`Synced` of {resource} {name}, which is not selected any more, should be False and is {} {why}",
                synced.unwrap_or("missing")
            )),
        }
    }

    fn of_objects_of_unselected(&self, key: &SourceKey, source: &Value) -> Vec<String> {
        // Where a changed document may delete nothing, a person decides.
        if self.mapping.on_exit != "Delete" || self.mapping.max_lost == 0 {
            return Vec::new();
        }
        let name = self.mapping.name;
        let left = self.made_of(source).filter(|made| made.owner.mapping == *name);
        let left = left.filter(|made| !self.is_broken("", &made.name) && !self.is_out_of_reach(made));
        left.map(|made| format!("{} of {} {} is out of the filter and remains", made.id, key.resource, key.name))
            .collect()
    }

    /// What engines made of a source, and still is there.
    fn made_of(&self, source: &Value) -> impl Iterator<Item = &Made> {
        let uid = text(source, "uid");
        self.made.values().filter(move |made| made.owner.engine == "main" && made.source_uid == uid && made.remains())
    }

    /// What engines made of a source or of one before it in its place, and still is there.
    fn owned(&self, mapping: &Mapping, key: &SourceKey) -> impl Iterator<Item = &Made> {
        self.once_owned(mapping, key).filter(|made| made.remains())
    }

    /// The same, and what is gone, or tells no more whose it is.
    fn once_owned(&self, mapping: &Mapping, key: &SourceKey) -> impl Iterator<Item = &Made> {
        let mapping = mapping.name;
        self.made.values().filter(move |made| {
            // A plain cluster is known by its identity.
            let here = !self.world.plan.is_kcp || made.owner.cluster == key.cluster;
            here && (&made.owner.namespace, &made.owner.name) == (&key.namespace, &key.name)
                && made.owner.mapping == mapping
                && made.owner.engine == "main"
                && self.is_same_resource(made, key)
        })
    }

    /// Whether it is beside a source whose cluster does not let the engine use Secrets, or is of a kind there that nobody knows any more.
    fn is_out_of_reach(&self, made: &Made) -> bool {
        let is_unclaimed = || made.side == Side::Source && !self.world.is_claimed(&made.owner.cluster);
        self.is_away(made.side) || is_unclaimed() || self.world.shared.lock().checker.is_forgotten(made)
    }

    /// A copy of a related object: what its original holds, where there is one.
    fn of_copy(&self, rule: &Rule, key: &SourceKey, source: &Value) -> Found {
        let (namespace, name) = (self.namespace(Side::Target, key), format!("{}{}", key.name, rule.suffix));
        // No object has such a name: neither the copy nor, where the name is made of the source's, the original.
        if name.len() > LONGEST || format!("{}{CONN}", key.name).len() > LONGEST && rule.id == CONNECTION.id {
            return Found::HeldUp;
        }
        let is_password = rule.id == PASSWORD.id;
        let on_target = |name: &str| self.at(Side::Target, key, "Secret", &namespace, name);
        let beside = |name: &str| self.secrets.get(&(key.cluster.clone(), name.to_owned()));
        let original = match is_password {
            true => beside(source["spec"]["secret"].as_str().unwrap_or_default()),
            false => on_target(&format!("{}{CONN}", key.name)),
        };
        let is_claimed = self.world.is_claimed(&key.cluster);
        match original {
            None if rule.id != CONNECTION.id => Found::HeldUp,
            // Nothing says that a claim is lacking for a copy that is not due.
            None if is_claimed => Found::InOrder,
            None => Found::Unclear,
            Some(_) if !is_claimed => Found::HeldUp,
            Some(original) => {
                let data = serde_json::from_value(original["data"].clone()).unwrap_or_default();
                let copy = if is_password { on_target(&name) } else { beside(&name) };
                let wanted = Wanted { side: Side::Target, id: rule.id, kind: rule.kind, namespace, name, data };
                self.of_found(self.mapping, key, source, &wanted, copy).with_type(copy, original)
            }
        }
    }

    /// The Secrets that the rule for more copies names, in the namespace of a source.
    fn originals(&self, key: &SourceKey, source: &Value) -> Vec<String> {
        match self.mapping.more {
            More::Shared => vec![source["spec"]["secret"].as_str().unwrap_or_default().to_owned()],
            More::Each => {
                let many = if source["spec"]["extra"] == true { 2 } else { 1 };
                ITEMS[..many].iter().map(|item| (*item).to_owned()).collect()
            }
            More::Selected => {
                let here = self.secrets.iter().filter(|((cluster, _), _)| *cluster == key.cluster);
                let selected = here.filter(|(_, secret)| secret["metadata"]["labels"][COPY] == "yes");
                selected.map(|((_, name), _)| name.clone()).collect()
            }
        }
    }

    /// Whether a copy of several is one that the source names no more.
    fn has_left_list(&self, made: &Made, key: &SourceKey, source: &Value) -> bool {
        let item = made.key().filter(|_| made.rule_id() == MORE.id && self.world.is_claimed(&key.cluster));
        item.is_some_and(|item| !self.originals(key, source).iter().any(|name| name == item))
    }

    /// The copies of a source beyond that of its password and its connection.
    fn of_more(&self, key: &SourceKey, source: &Value) -> Vec<Found> {
        let is_claimed = self.world.is_claimed(&key.cluster);
        // Who may not see Secrets cannot tell which ones have a label.
        if !is_claimed && self.mapping.more == More::Selected {
            return vec![Found::HeldUp];
        }
        let found = self.originals(key, source).into_iter().map(|name| {
            let original = self.secrets.get(&(key.cluster.clone(), name.clone()));
            match original {
                None if is_claimed => Found::InOrder,
                None => Found::Unclear,
                Some(_) if !is_claimed => Found::HeldUp,
                Some(original) => self.of_one_more(key, source, &name, original),
            }
        });
        found.collect()
    }

    fn of_one_more(&self, key: &SourceKey, source: &Value, name: &str, original: &Value) -> Found {
        let more = self.mapping.more;
        let copy_name = if more == More::Each { format!("{}-{name}", key.name) } else { name.to_owned() };
        if copy_name.len() > LONGEST {
            return Found::HeldUp;
        }
        let namespace = self.namespace(Side::Target, key);
        let mut data: BTreeMap<String, String> = serde_json::from_value(original["data"].clone()).unwrap_or_default();
        if let (More::Each, Some(value)) = (more, data.get_mut("password")) {
            let text = data_encoding::BASE64.decode(value.as_bytes()).unwrap_or_default();
            *value = base64(&format!("{TRANSFORMED}{}", String::from_utf8_lossy(&text)));
        }
        let copy = self.at(Side::Target, key, "Secret", &namespace, &copy_name);
        let found = match more {
            More::Shared => self.of_shared(copy, &data),
            _ => {
                let wanted =
                    Wanted { side: Side::Target, id: MORE.id, kind: MORE.kind, namespace, name: copy_name, data };
                self.of_found(self.mapping, key, source, &wanted, copy)
            }
        };
        found.with_type(copy, original)
    }

    /// How the copy is that sources of a namespace share.
    fn of_shared(&self, copy: Option<&Value>, data: &BTreeMap<String, String>) -> Found {
        let Some(copy) = copy else { return Found::Missing };
        let made = self.made.get(&text(copy, "uid"));
        let is_its = |made: &&Made| made.owner.engine == "main" && made.owner.mapping == self.mapping.name;
        match made.filter(is_its) {
            Some(made) if made.is_shared && !made.stripped => {}
            _ => return Found::HeldUp,
        }
        let held: BTreeMap<String, String> = serde_json::from_value(copy["data"].clone()).unwrap_or_default();
        let differs = data.iter().find(|(field, value)| held.get(*field) != Some(*value));
        differs.map_or(Found::InOrder, |(field, _)| Found::Wrong(format!("is out of date: {field}")))
    }

    /// Shared copies that no source needs any more.
    fn unused(&self, sources: &BTreeMap<SourceKey, Value>) -> Vec<String> {
        let world = self.world;
        let mapping = self.mapping;
        // Who may be gone without having been seen, or may not be looked at, keeps what is shared.
        let is_unclear = world.source_restored
            || world.target_restored
            || world.forgot
            || world.other_served()
            || world.processes.len() > 1
            || world.file != File::Whole
            || mapping.mode != "Enforce"
            || mapping.max_lost == 0
            || mapping.on_exit == "Retain" && (mapping.selects || mapping.when);
        if is_unclear {
            return Vec::new();
        }
        let is_needed = |made: &&Made| {
            sources.iter().any(|(key, source)| {
                let is_here = self.namespace(made.side, key) == made.namespace;
                let names = mapping.shares() && self.originals(key, source).contains(&made.name);
                is_here && (names || !world.is_served(&key.cluster) || !world.is_claimed(&key.cluster))
            })
        };
        let uids: Vec<String> = sources
            .iter()
            .filter(|(key, _)| key.resource == mapping.resource)
            .map(|(_, source)| text(source, "uid"))
            .collect();
        // What is beside orphaned objects stays with them.
        let is_beside = |made: &Made| {
            let is_of_another =
                |other: &&Made| !other.is_shared && other.remains() && !uids.contains(&other.source_uid);
            self.made.values().filter(is_of_another).any(|other| other.namespace == made.namespace)
        };
        let left = |made: &&Made| {
            made.is_shared && made.remains() && made.owner.mapping == mapping.name && made.owner.engine == "main"
        };
        // An object that keeps its former name is not written, and may still refer to it.
        let is_kept = |made: &Made| {
            let moves = |other: &&Made| {
                let mut rules = mapping.rules.iter().filter(|rule| rule.id == other.id);
                other.owner.mapping == mapping.name && rules.any(|rule| !other.is_named_by(rule))
            };
            let here = |other: &&Made| other.remains() && other.namespace == made.namespace && !other.is_shared;
            mapping.on_identity_change == "Block" && self.made.values().filter(here).any(|other| moves(&other))
        };
        let left = self.made.values().filter(left);
        let left = left.filter(|made| !is_needed(made) && !is_beside(made) && !is_kept(made));
        left.map(|made| format!("{} is shared, and no source needs it", made.place())).collect()
    }

    fn of_object(&self, mapping: &Mapping, key: &SourceKey, source: &Value, wanted: &Wanted) -> Found {
        // Who may not use what is beside a source leaves it as it is.
        if mapping.is_beside && !self.world.is_claimed(&key.cluster) {
            return Found::HeldUp;
        }
        self.of_found(
            mapping,
            key,
            source,
            wanted,
            self.at(wanted.side, key, wanted.kind, &wanted.namespace, &wanted.name),
        )
    }

    /// The object of a name, where those of a source are.
    fn at(&self, side: Side, key: &SourceKey, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        let cluster =
            if self.world.plan.is_beside && self.world.plan.is_kcp { key.cluster.clone() } else { String::new() };
        self.target.get(&(side, cluster, kind.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    /// How a wanted object is, with what is in its place.
    fn of_found(
        &self,
        mapping: &Mapping,
        key: &SourceKey,
        source: &Value,
        wanted: &Wanted,
        object: Option<&Value>,
    ) -> Found {
        if wanted.name.len() > LONGEST {
            return Found::HeldUp;
        }
        let is_copy = mapping.copies(wanted.id);
        let Some(object) = object else {
            // A change of kind or name is reported, and the former object stays. A copy is made anew.
            let is_former = |made: &Made| made.side == wanted.side && made.id == wanted.id && wanted.id != MORE.id;
            let is_blocked = mapping.on_identity_change == "Block" && !is_copy || mapping.max_lost == 0;
            let former = self.once_owned(mapping, key).filter(|made| is_blocked && !made.gone && is_former(made));
            return match former.map(|made| made.stripped).min() {
                None => Found::Missing,
                Some(false) => Found::HeldUp,
                // A process that saw it before somebody changed its marks knows it still, and no other.
                Some(true) => Found::Unclear,
            };
        };
        let Some(made) = self.made.get(&text(object, "uid")) else {
            return match mapping.adopts {
                true => Found::Wrong("is nobody's, and is not adopted".into()),
                false => Found::HeldUp,
            };
        };
        if made.stripped {
            // A process that started later, or was cut off meanwhile, may have found it stripped already.
            let nobody_knows = self.world.is_disturbed() || made.given_up || made.source_uid != text(source, "uid");
            return match nobody_knows {
                true => Found::HeldUp,
                false => Found::Wrong("was stripped of its labels and annotations, and is not restored".into()),
            };
        }
        if made.owner.engine != "main" {
            return Found::HeldUp;
        }
        if made.source_uid != text(source, "uid") || made.owner.mapping != mapping.name {
            let same = made.owner.name == key.name
                && made.owner.mapping == mapping.name
                && made.owner.cluster == self.world.identity(&key.cluster)
                && self.is_same_resource(made, key);
            return match mapping.on_source_recreated(self.world.plan.is_kcp) {
                "Block" => Found::HeldUp,
                _ if !same => Found::HeldUp,
                policy => Found::Wrong(format!("belongs to the source of this name before it: {policy}")),
            };
        }
        if made.rule_id() != wanted.id
            && self.made_of(source).any(|other| other.side == wanted.side && other.id == wanted.id)
        {
            return Found::HeldUp;
        }
        // Two processes may go by different documents for a moment. Then it is there twice, which the engine reports.
        let is_other = |other: &Made| {
            (other.side, &other.id, &other.owner) == (made.side, &made.id, &made.owner) && !other.is_at(wanted)
        };
        if mapping.on_identity_change == "Block" && !is_copy && self.made_of(source).any(is_other) {
            return Found::HeldUp;
        }
        let data = contents(object);
        let is_set_by_admission = |field: &str| field == "edition" && self.world.shared.lock().mutates;
        let is_kept = |field: &str, value: &String| data.get(field) == Some(value) || is_set_by_admission(field);
        let differs = wanted.data.iter().find(|(field, value)| !is_kept(field, value));
        if made.edited && mapping.drift != "Correct" && !is_copy {
            return Found::Unclear;
        }
        if wanted.id == MADE.id && !data.contains_key(READS) {
            return Found::Wrong("has no password".into());
        }
        // Whoever forges what says which fields a template set keeps them.
        let is_former = |field: &&String| field.starts_with(FIELD) && !wanted.data.contains_key(*field);
        if let Some(former) = data.keys().find(is_former).filter(|_| !made.was_edited) {
            return Found::Wrong(format!("has a field of a former edition: {former}"));
        }
        differs.map_or(Found::InOrder, |(field, _)| Found::Wrong(format!("is out of date: {field}")))
    }

    /// A document takes the place of the one in force once its limits let it; one of other sources once nothing of those before is
    /// left.
    fn waits_for_nothing(&self, sources: &BTreeMap<SourceKey, Value>) -> Option<String> {
        let World { mapping, draft, file, .. } = self.world;
        let runs = *file == File::Whole && [mapping, draft].iter().all(|one| one.mode == "Enforce");
        // What differs in something that none of its objects has is the same document.
        let text = |one: &Mapping| one.document(self.world.plan.is_kcp, false);
        let is_other = mapping.name == draft.name && text(mapping) != text(draft);
        // Nobody can tell what a former cluster of the sources has.
        let is_rebuilt = self.world.plan.has(|action| matches!(action, Action::Rebuild(Side::Source, _)));
        let is_seen = !is_rebuilt && self.world.plan.forever.is_none();
        if !is_other || !runs || !is_seen {
            return None;
        }
        if mapping.resource == draft.resource {
            // While most sources of a wave tell nothing, so does its gate.
            let is_in_order = |(key, source): (&SourceKey, &Value)| {
                key.resource != mapping.resource || synced(source) == Some("True")
            };
            let is_told = !mapping.in_waves || sources.iter().all(is_in_order);
            let waits = is_told && mapping.max_lost > 0;
            return waits.then(|| format!("the document waits, and no limit holds it: {draft:?}"));
        }
        let finalizer = finalizer("main", mapping.name);
        let is_held = |(key, source): (&SourceKey, &Value)| {
            key.resource == mapping.resource && source["metadata"]["finalizers"].to_string().contains(&finalizer)
        };
        let is_left = |made: &Made| made.owner.mapping == mapping.name && made.owner.engine == "main" && made.remains();
        let is_needed = sources.iter().any(is_held) || self.made.values().any(is_left);
        let text = || format!("the document of {} waits, and nothing of {} is left", draft.resource, mapping.resource);
        (!is_needed).then(text)
    }

    /// Nothing is left of a kind that the target never has. The state store names it no longer than its documents do.
    fn names_missing_kind(&self) -> Option<String> {
        let World { mapping, draft, file, plan, target_restored, .. } = self.world;
        let is_lacking = plan.forever == Some(Forever::NoWidgets) && !plan.is_beside && !target_restored;
        let is_unnamed = |one: &Mapping| {
            let has_none = one.rules.iter().all(|rule| rule.kind != "Widget");
            has_none && one.mode == "Enforce" && one.spread == Spread::One
        };
        let is_known = is_lacking && *file == File::Whole && is_unnamed(mapping) && is_unnamed(draft);
        let url = state_store(mapping.name);
        let store = self.world.get(Side::Target, &url).filter(|_| is_known)?;
        let names = store["data"]["kinds"].as_str().is_some_and(|kinds| kinds.contains(" Widget"));
        names.then(|| format!("{url} names the kind Widget, which no document has"))
    }

    fn is_same_resource(&self, made: &Made, key: &SourceKey) -> bool {
        self.is_known(&made.source_uid, |source| source.resource == key.resource)
    }

    /// Whether it holds of the source with this uid, by the records.
    fn is_known(&self, uid: &str, holds: impl FnOnce(&Source) -> bool) -> bool {
        self.world.shared.lock().checker.sources.get(uid).is_some_and(holds)
    }
}

/// Reasons that the engine names before that a claim is not accepted, where a source has both.
const WORSE_THAN_A_CLAIM: [&str; 6] =
    ["TargetChanged", "Conflict", "RenderFailed", "IdentityChanged", "Recreated", "Refused"];

fn synced(source: &Value) -> Option<&str> {
    condition(source)?["status"].as_str()
}

fn reason(source: &Value) -> Option<&str> {
    condition(source)?["reason"].as_str()
}

fn condition(source: &Value) -> Option<&Value> {
    source["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == "Synced")
}

fn place_of(object: &Value) -> Place {
    let cluster = object["metadata"]["annotations"]["kcp.io/cluster"].as_str().unwrap_or_default().to_owned();
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    (side_of(object), cluster, kind, text(object, "namespace"), text(object, "name"))
}
