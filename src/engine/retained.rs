//! What all state stores together, and home, say of mappings: they go on without their files.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tokio::sync::mpsc;
use tracing::info;

use super::inventory::Inventory;
use super::keeper::RETRY;
use super::target::Target;
use super::{Engine, Event, Shared, for_good};
use crate::catalog::{Entry, Standing};
use crate::health::{Condition, Level};
use crate::multicluster::backoff::Jitter;

/// What the state stores of a mapping tell together, and home.
#[derive(Debug, Default)]
pub struct Retained {
    /// What the last one of them all says.
    latest: Inventory,
    /// When home recorded its document, and the documents of the providers.
    at_home: Option<(Option<Timestamp>, String)>,
    /// The worst of what it means that a target is out of order, of all targets that tell of the mapping.
    trouble: Option<Level>,
    /// Targets whose state store of it, or home whose word on it, this version does not read.
    unread: BTreeSet<String>,
}

impl Retained {
    /// `true`: together, they tell something else from now on.
    pub fn take(&mut self, store: Inventory, is_home: bool, trouble: Level) -> bool {
        let before = self.documents(true);
        self.trouble = self.trouble.max(Some(trouble));
        if is_home && self.at_home.as_ref().is_none_or(|(at, _)| *at <= store.recorded) {
            self.at_home = Some((store.recorded, store.provider.clone()));
        }
        if store.recorded > self.latest.recorded || self.latest.document.is_empty() {
            // Nothing but the mapping: what somebody wrote behind it may be a provider.
            let first = crate::yaml::parse_one(&store.document).filter(|one| one.text != store.document);
            let Inventory { document, provider, recorded, .. } = store;
            let document = first.map_or(document, |one| one.text);
            self.latest = Inventory { document, provider, recorded, ..Inventory::default() };
        }
        self.documents(true) != before
    }

    /// The state stores of a target were read, but perhaps for this one. `true`: that is news.
    fn read(&mut self, target: &str, is_unread: bool, trouble: Level) -> bool {
        if !is_unread {
            return self.unread.remove(target);
        }
        self.trouble = self.trouble.max(Some(trouble));
        self.unread.insert(target.to_owned())
    }

    /// Whether this version does not read what a target says of the mapping.
    pub fn is_unread(&self, target: &str) -> bool {
        self.unread.contains(target)
    }

    /// Whether any target tells of the mapping: what was not read may have been deleted since.
    fn is_told(&self) -> bool {
        !self.unread.is_empty() || self.latest != Inventory::default()
    }

    /// What it means for the engine's readiness that the mapping is not served. One that a cluster of a fleet alone knows holds up no
    /// roll-out: somebody may have written it there.
    pub fn trouble(&self) -> Level {
        self.trouble.unwrap_or(Level::Waiting)
    }

    /// All that is needed to serve the mapping without its files. A provider may lead to sources anywhere, also those of a mapping
    /// that has a file: of one that home names, home alone says which they are, and of any other nobody does before home is read.
    pub fn documents(&self, is_home_read: bool) -> Arc<str> {
        let of_home = self.at_home.as_ref().map(|(_, provider)| provider);
        let provider = of_home.or(Some(&self.latest.provider).filter(|_| is_home_read)).cloned().unwrap_or_default();
        Inventory { provider, document: self.latest.document.clone(), ..Inventory::default() }.documents()
    }
}

impl Engine {
    /// Reads, in the background, which mappings the state stores on a target name.
    pub(super) fn read_retained(&mut self, target: &Arc<Target>) {
        let (target, shared, events) = (target.clone(), self.shared.clone(), self.events.clone());
        let of_target = move || read(target.clone(), shared.clone(), events.clone());
        self.tasks.spawn(for_good("state stores on target", of_target));
    }

    /// The state stores of a target were read.
    pub(super) fn learn(&mut self, target: String, found: Vec<Result<Inventory, String>>) {
        let (is_home, has_any) = (target == self.shared.settings.home, !found.is_empty());
        let trouble = self.targets.get(&target).map_or(Level::Waiting, |target| target.trouble());
        let is_news = self.read.insert(target.clone());
        // What others told of providers counts from now on, where home does not know the mapping.
        let mut learned = is_home && is_news && !self.retained.is_empty();
        // They are read again while another one there is not read: nothing may be left since on the former targets that they name.
        let were_read = self.retained.iter().filter(|(_, known)| !is_news && !known.is_unread(&target));
        let were_read: BTreeSet<String> = were_read.map(|(name, _)| name.clone()).collect();
        let (mut unread, mut others) = (BTreeSet::new(), BTreeSet::new());
        for one in found {
            let mut inventory = match one {
                Ok(inventory) => inventory,
                Err(name) => {
                    self.retained.entry(name.clone()).or_default();
                    unread.insert(name);
                    continue;
                }
            };
            let name = inventory.mapping.clone();
            let entry = self.catalog.mapping(&name);
            if !were_read.contains(&name) && entry.is_none_or(|entry| entry.file.is_none()) {
                let targets = std::mem::take(&mut inventory.targets);
                self.former_targets.entry(name.clone()).or_default().extend(targets);
            }
            // A text that the catalog has is kept once.
            let same = entry.map(|entry| &entry.mapping.text).filter(|text| **text == inventory.document);
            if let Some(same) = same.cloned() {
                inventory.document = same;
            }
            if self.retained.entry(name.clone()).or_default().take(inventory, is_home, trouble) {
                others.insert(name);
            }
        }
        let is_read_anew = |(name, known): (&String, &mut Retained)| {
            known.read(&target, unread.contains(name), trouble).then(|| name.clone())
        };
        others.extend(self.retained.iter_mut().filter_map(is_read_anew));
        self.retained.retain(|name, known| !others.contains(name) || known.is_told());
        for name in others {
            // What is known from a state store alone is not the last document. What is known from a file is.
            if self.catalog.mapping(&name).is_some_and(|entry| entry.file.is_none()) {
                self.catalog = self.catalog.forget(&name);
            }
            learned = true;
        }
        if learned {
            self.update();
        } else if is_news {
            self.converge();
        }
        if has_any {
            // How bad it is that they are not served may be known only now.
            self.say_errors(&self.problems);
        }
    }

    /// Of a mapping without a file, the target, or home, that may hold its latest document and was not read yet, or not what it says of
    /// the mapping. Until then, what the engine knows of it may be what a later document forbids.
    pub(super) fn unread_target(&self, entry: &Entry) -> Option<String> {
        let settings = &self.shared.settings;
        let is_known_from_stores = entry.standing == Standing::Retained && entry.file.is_none();
        let home = settings.home_connection().map(|_| settings.home.clone());
        let targets = self.slots(&entry.mapping).into_values().chain(home);
        let known = self.retained.get(&entry.mapping.name);
        let is_unread = |target: &String| known.is_some_and(|known| known.is_unread(target));
        targets.filter(|_| is_known_from_stores).find(|target| !self.read.contains(target) || is_unread(target))
    }

    /// A removed mapping has nothing to look after if it was refused from its first document on, and no state store knows it.
    pub(super) fn forget_what_never_ran(&mut self) {
        // One without a file is known from state stores alone, which may be about to be read again.
        let are_stores_read = self.targets.keys().all(|target| self.read.contains(target));
        let never_ran = |name: &str, entry: &Entry| {
            let is_sure = entry.file.is_some() || are_stores_read;
            let is_gone = entry.standing == Standing::Retained && entry.generation == 1 && is_sure;
            let is_refused = self.refused.iter().any(|slot| slot.mapping == name);
            is_gone && is_refused && !self.retained.contains_key(name) && self.pipelines_of(name).next().is_none()
        };
        let mappings = self.catalog.mappings().filter(|(name, entry)| never_ran(name, entry));
        let names: Vec<String> = mappings.map(|(name, _)| name.to_owned()).collect();
        for name in names {
            info!(mapping = name, "the mapping was removed before it ran");
            self.catalog = self.catalog.forget(&name);
        }
    }
}

/// Reads, once, which mappings a former engine of this id had on a target. Where another connection leads to that meanwhile, somebody
/// else does.
pub(super) async fn read(target: Arc<Target>, shared: Arc<Shared>, events: mpsc::Sender<Event>) {
    tokio::select! {
        biased;
        // Cancel-safe: a token stays cancelled.
        () = target.retired() => {}
        // It tells the engine as the last thing that it does.
        () = read_once(&target, &shared, &events) => {}
    }
}

async fn read_once(target: &Target, shared: &Shared, events: &mpsc::Sender<Event>) {
    let (mut failures, term) = (0, shared.lease.number());
    let mut jitter = Jitter::of(&target.name);
    let what = format!("state stores on target {}", target.name);
    loop {
        let read = shared.inventories(target.endpoint()).list_each().await;
        if shared.lease.number() != term && shared.lease.is_held() {
            // Another process may have written since, and who leads asks anew.
            return;
        }
        let why = read.as_ref().map_or_else(Some, |found| found.iter().find_map(|one| Some(&one.as_ref().err()?.1)));
        let state = why.map_or(Ok(()), |why| Err(why.to_string()));
        shared.instruments.health.set(&what, Condition::of(state.clone(), target.trouble()));
        if let Ok(found) = read {
            let found = found.into_iter().map(|one| one.map_err(|(mapping, _)| mapping)).collect();
            let _ = events.send(Event::Retained(term, target.name.clone(), found)).await;
        }
        if state.is_ok() {
            return;
        }
        tokio::time::sleep(RETRY.delay(failures, &mut jitter)).await;
        failures += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::DEFAULT_TARGET;
    use crate::engine::tests::{document, engine};

    fn store(target: &str) -> Inventory {
        let document = document("widgets", "ConfigMap", &format!("  target: {target}\n"));
        Inventory { mapping: "widgets".into(), document: document.into(), ..Inventory::default() }
    }

    /// Whoever can write on a target leads no mapping to sources of their own.
    #[test]
    fn providers_are_those_that_home_names_whatever_a_target_holds() {
        let store = |second: i64, document: &str, provider: &str| Inventory {
            document: document.into(),
            provider: provider.into(),
            recorded: Timestamp::from_second(second).ok(),
            ..Inventory::default()
        };
        let theirs = || store(9, "kind: Mapping\n---\nkind: ClusterProvider", "theirs: 1");
        let mut retained = Retained::default();
        assert!(retained.take(theirs(), false, Level::Degraded));
        assert_eq!(&*retained.documents(false), "kind: Mapping\n", "home may still say which");
        assert_eq!(&*retained.documents(true), "theirs: 1\n---\nkind: Mapping\n", "home does not know the mapping");
        assert_eq!(retained.trouble(), Level::Degraded, "nor does any roll-out wait for it");
        assert!(retained.take(store(1, "kind: Mapping", "home: 1"), true, Level::Waiting));
        assert!(!retained.take(theirs(), false, Level::Degraded));
        assert_eq!(&*retained.documents(true), "home: 1\n---\nkind: Mapping\n");
        assert_eq!(retained.trouble(), Level::Waiting);
    }

    /// The leader before may have recorded a later document there, by which nothing is to be deleted.
    #[tokio::test]
    async fn a_mapping_without_a_file_waits_in_each_term_for_home_and_all_targets_to_be_read() {
        let store = || store(r#"{cluster: "{{ source.metadata.labels.target }}", allowed: [t1, t2]}"#);
        let all = ["home", "t1", "t2"];
        let (mut engine, _received) = engine(&all);
        for unread in all {
            engine.leadership();
            for target in all.into_iter().filter(|target| *target != unread) {
                engine.learn(target.to_owned(), vec![Ok(store())]);
            }
            assert_eq!(engine.pipelines.len(), 0, "what {unread} has may forbid what the others say");
            engine.learn(unread.to_owned(), Vec::new());
            assert_eq!(engine.pipelines.len(), 2);
        }
    }

    /// A later version of the engine wrote one of them before the present one ran again.
    #[tokio::test]
    async fn a_state_store_that_is_not_read_holds_up_its_own_mapping_alone_wherever_that_is() {
        let widgets = || Ok(store(r#"{cluster: "{{ source.metadata.labels.target }}", allowed: [t1, t2]}"#));
        let gadgets = document("gadgets", "ServiceAccount", "  target: {cluster: t1}\n");
        let gadgets = gadgets.replace("widgets.v1", "gadgets.v1");
        let gadgets =
            || Ok(Inventory { mapping: "gadgets".into(), document: gadgets.clone().into(), ..Inventory::default() });
        let unread = || Err("widgets".to_owned());
        let (mut engine, _received) = engine(&["home", "t1", "t2", "other"]);
        type Row = (&'static str, Vec<Result<Inventory, String>>, &'static [&'static str]);
        // What is found where, and the mappings that run then, once for each target.
        let rows: [Row; 6] = [
            ("home", vec![widgets(), gadgets()], &[]),
            ("t1", vec![unread(), gadgets()], &["gadgets"]),
            ("t2", vec![widgets()], &["gadgets"]),
            ("t1", vec![widgets(), gadgets()], &["gadgets", "widgets", "widgets"]),
            ("other", vec![unread()], &["gadgets", "widgets", "widgets"]),
            ("home", vec![unread(), gadgets()], &["gadgets"]),
        ];
        for (target, found, running) in rows {
            engine.learn(target.to_owned(), found);
            let mappings: Vec<&str> = engine.pipelines.keys().map(|slot| slot.mapping.as_str()).collect();
            assert_eq!(mappings, running);
        }
    }

    /// All state stores on a target are read again for as long as one of them is not read.
    #[tokio::test]
    async fn a_former_target_is_learned_once_in_each_term_however_often_a_state_store_names_it() {
        let widgets = || {
            let store = store(r#"{cluster: "{{ source.metadata.labels.target }}", allowed: [t1]}"#);
            Ok(Inventory { targets: ["former".to_owned()].into(), ..store })
        };
        let unread = |name: &str| Err(name.to_owned());
        let (mut engine, _received) = engine(&["home", "t1"]);
        type Row = (&'static str, Vec<Result<Inventory, String>>, bool);
        let rows: [Row; 3] = [
            ("it is not read", vec![unread("widgets")], false),
            ("it is read", vec![widgets(), unread("gadgets")], true),
            ("nothing is left there since", vec![widgets(), unread("gadgets")], false),
        ];
        let learns = |engine: &mut Engine, found| {
            engine.former_targets.clear();
            engine.learn("t1".to_owned(), found);
            engine.former_targets.get("widgets").is_some_and(|known| known.contains("former"))
        };
        for (case, found, is_learned) in rows {
            assert_eq!(learns(&mut engine, found), is_learned, "{case}");
        }
        engine.leadership();
        assert!(learns(&mut engine, vec![widgets(), unread("gadgets")]), "another process may have led");
    }

    /// It was told as a mapping that does not run until the lease was lost, or the process ended.
    #[tokio::test]
    async fn a_state_store_that_is_deleted_before_it_was_read_leaves_the_engine_ready() {
        let (mut engine, _received) = engine(&["home", "t1"]);
        let told = |engine: &mut Engine, found| {
            engine.learn("t1".to_owned(), found);
            let standings = engine.shared.instruments.health.standings();
            let of_mappings = standings.into_iter().find(|one| one.component == "mappings");
            of_mappings.map(|one| one.condition.level)
        };
        assert_eq!(told(&mut engine, vec![Err("widgets".to_owned())]), Some(Level::Waiting));
        assert_eq!(told(&mut engine, Vec::new()), Some(Level::Ready));
    }

    /// The leader before may have ended what waited here for a connection.
    #[tokio::test]
    async fn a_mapping_that_never_ran_and_that_no_state_store_names_any_more_is_forgotten() {
        let (mut engine, _received) = engine(&["home", DEFAULT_TARGET]);
        ["home", DEFAULT_TARGET].iter().for_each(|name| assert!(engine.target(name).is_some()));
        engine.learn("home".to_owned(), vec![Ok(store("{cluster: elsewhere}"))]);
        let is_known = |engine: &Engine| engine.catalog.mapping("widgets").is_some();
        assert!(is_known(&engine) && engine.pipelines.is_empty(), "nobody gave its connection");
        engine.leadership();
        engine.learn("home".to_owned(), Vec::new());
        assert!(is_known(&engine), "another target may know it");
        engine.learn(DEFAULT_TARGET.to_owned(), Vec::new());
        assert!(!is_known(&engine));
    }
}
