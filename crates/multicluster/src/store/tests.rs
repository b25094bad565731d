use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::bodies::Bodies;
use crate::queue::tests::key;
use crate::stores::Stores;

/// What a subscriber hears of a change: name, versions before and after, cause.
pub type Note = (String, Option<String>, Option<String>, ChangeCause);
pub type Heard = Arc<Mutex<Vec<Note>>>;

fn text(cluster: &str, name: &str, uid: &str, version: u64, owner: Option<&str>) -> String {
    let labels = owner.map(|owner| json!({"sync-engine.dev/owner": owner})).unwrap_or_default();
    json!({"metadata": {
        "name": name, "namespace": "ns", "uid": uid, "resourceVersion": version.to_string(),
        "labels": labels, "annotations": {"kcp.io/cluster": cluster},
    }})
    .to_string()
}

struct Scene {
    stores: Stores,
    store: Arc<Store>,
    subscription: Subscription,
    heard: Heard,
}

impl Scene {
    fn new() -> Self {
        let store = Store::new(ClustersOf::Annotated);
        let stores = Stores::new(store.clone(), None);
        stores.begin_list().finish("1");
        let (subscription, heard) = listen(&store);
        Self { stores, store, subscription, heard }
    }

    /// Version 5 of `db` is known, and was told of.
    fn with_db() -> Self {
        let scene = Self::new();
        scene.event("db", "u", 5);
        scene.heard();
        scene
    }

    fn event(&self, name: &str, uid: &str, version: u64) {
        assert!(self.store.put(Parsed::read(&text("c", name, uid, version, None)).unwrap()).unwrap());
    }

    fn deletion(&self, name: &str, uid: &str, version: u64) {
        assert!(self.store.delete(Parsed::read(&text("c", name, uid, version, None)).unwrap()));
    }

    fn list(&self, names: &[(&str, u64)], version: &str) {
        let listing = self.stores.begin_list();
        for (name, version) in names {
            listing.item(Parsed::read(&text("c", name, "u", *version, None)).unwrap()).unwrap();
        }
        listing.finish(version);
    }

    fn version(&self, name: &str) -> Option<String> {
        self.store.get(&key("c", name)).map(|object| object.resource_version().to_owned())
    }

    fn heard(&self) -> Vec<Note> {
        heard(&self.heard)
    }

    fn run(&self, steps: &[Step]) -> String {
        let (mut request, mut listing, mut trace) = (None, None, Vec::new());
        for step in steps {
            match *step {
                Event(uid, version) => self.event("db", uid, version),
                Deletion(uid, version) => self.deletion("db", uid, version),
                List(shown, version) => self.list(shown, version),
                ListBegins => listing = Some(self.stores.begin_list()),
                ListEnds(version) => listing.take().expect("a list").finish(version),
                Restored => self.store.doubt_versions(),
                Sent => request = Some(self.subscription.expect(&key("c", "db"))),
                Answer(uid, version) => {
                    let is_overtaken = answered(request.take().expect("a request"), object("db", uid, version));
                    let end = if is_overtaken { "overtaken" } else { "own" };
                    trace.push(end.to_owned());
                }
                Ended(uid) => request.as_ref().expect("a request").ended(uid),
                Missing => request.as_ref().expect("a request").missing(),
                Dropped => {
                    trace.push("dropped".to_owned());
                    drop(request.take());
                }
            }
            let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "none".to_owned());
            for (_, before, after, cause) in self.heard() {
                trace.push(format!("{} > {} {cause:?}", version(&before), version(&after)));
            }
        }
        let untold = if self.store.has_untold_answer() { ", untold" } else { "" };
        format!("{}; holds {}{untold}", trace.join(", "), self.version("db").as_deref().unwrap_or("none"))
    }
}

/// What a subscriber heard since the last time.
pub fn heard(heard: &Heard) -> Vec<Note> {
    std::mem::take(&mut heard.lock().unwrap())
}

pub fn listen(store: &Arc<Store>) -> (Subscription, Heard) {
    let heard = Heard::default();
    let notes = heard.clone();
    let subscription = store.subscribe(move |change| {
        let version = |object: Option<&Arc<Object>>| object.map(|object| object.resource_version().to_owned());
        let note = (change.key.name.to_string(), version(change.before), version(change.after), change.cause);
        notes.lock().unwrap().push(note);
    });
    (subscription, heard)
}

fn object(name: &str, uid: &str, version: u64) -> Arc<Object> {
    Object::from_json(text("c", name, uid, version, None).as_bytes()).unwrap().into()
}

/// Whether something else came in between.
fn answered(write: PendingWrite, answer: Arc<Object>) -> bool {
    let (object, overtaken) = write.complete(&Parsed::from_json(answer.json().as_bytes()).unwrap()).unwrap();
    assert_eq!(object, answer);
    overtaken
}

pub fn told(name: &str, before: Option<u64>, after: Option<u64>, cause: ChangeCause) -> Note {
    (name.into(), before.map(|v| v.to_string()), after.map(|v| v.to_string()), cause)
}

#[test]
fn one_name_in_two_workspaces_is_two_objects() {
    let store = Store::new(ClustersOf::Annotated);
    for cluster in ["b", "a"] {
        store.put(Parsed::read(&text(cluster, "db", cluster, 3, None)).unwrap()).unwrap();
    }
    let names = |cluster| store.of_cluster(&ClusterName::try_from(cluster).unwrap());
    assert_eq!(names("a").len(), 1);
    assert_eq!((names("a")[0].1.uid(), names("b")[0].1.uid()), ("a", "b"));
    assert!(names("aa").is_empty());
    let without_cluster = json!({"metadata": {"name": "db"}}).to_string();
    assert!(!store.put(Parsed::read(&without_cluster).unwrap()).unwrap());
}

/// What happens to one object, `db`.
enum Step {
    Event(&'static str, u64),
    Deletion(&'static str, u64),
    List(&'static [(&'static str, u64)], &'static str),
    ListBegins,
    /// Without the object.
    ListEnds(&'static str),
    /// The server was restored to an earlier state.
    Restored,
    /// A request of ours is on its way.
    Sent,
    Answer(&'static str, u64),
    /// The answer tells that the object with this uid is gone.
    Ended(&'static str),
    /// The answer tells that nothing is there.
    Missing,
    /// Nobody waits for an answer any more.
    Dropped,
}

use Step::{Answer, Deletion, Dropped, Ended, Event, List, ListBegins, ListEnds, Missing, Restored, Sent};

/// Each history on a scene of its own: how our requests end, what is heard after each step, and what the store holds at the end.
fn histories(start: fn() -> Scene, rows: &[(&str, &[Step], &str)]) {
    for (case, steps, expected) in rows {
        assert_eq!(start().run(steps), *expected, "{case}");
    }
}

#[test]
#[rustfmt::skip]
fn only_what_changed_is_told() {
    histories(Scene::new, &[
        ("by events", &[Event("u", 5), Event("u", 5), Event("u", 6), Deletion("u", 7)],
            "none > 5 Event, 5 > 6 Event, 7 > none Deleted; holds none"),
    ]);
    histories(Scene::with_db, &[
        ("in another history, a version is no proof of the same object", &[Restored, List(&[("db", 5)], "5"), List(&[("db", 5)], "5")],
            "5 > 5 Relist; holds 5"),
    ]);
}

#[test]
#[rustfmt::skip]
fn an_answer_is_stored_unless_something_newer_came() {
    histories(Scene::new, &[
        ("its event overtakes it, and is not told", &[Sent, Event("u", 6), Answer("u", 6)],
            "own; holds 6"),
        ("written while a list is taken, and after its version", &[ListBegins, Sent, Answer("u", 20), ListEnds("10")],
            "own; holds 20, untold"),
        ("confirmed by nobody, and not in the next list either", &[ListBegins, Sent, Answer("u", 20), ListEnds("10"), List(&[], "30")],
            "own, 20 > none Relist; holds none"),
        ("written while a list is taken, and gone again before its version", &[ListBegins, Sent, Answer("u", 8), ListEnds("10")],
            "own, 8 > none Relist; holds none"),
    ]);
    histories(Scene::with_db, &[
        ("the watch has still to tell of it", &[Sent, Answer("u", 7)],
            "own; holds 7, untold"),
        ("its event is no change", &[Sent, Answer("u", 6), Event("u", 6), Event("u", 7)],
            "own, 6 > 7 Event; holds 7"),
        ("somebody else wrote after us, and both events were faster than our answer", &[Sent, Event("u", 6), Event("u", 7), Answer("u", 6)],
            "overtaken; holds 7"),
        ("somebody else wrote before us: the answer is newer than that event", &[Sent, Event("u", 6), Answer("u", 7)],
            "overtaken; holds 7, untold"),
        ("it was deleted: an answer does not bring it back", &[Sent, Deletion("u", 7), Answer("u", 6)],
            "overtaken, 7 > none Deleted; holds none"),
        ("from before a list it proves nothing: a server that was restored meanwhile has lost it, and any other tells it", &[Sent, List(&[("db", 5)], "5"), Answer("u", 6), Event("u", 6)],
            "overtaken, 5 > 6 Event; holds 6"),
        ("a list shows that the server has lost it: it was restored to a state from before", &[Sent, Answer("u", 20), List(&[("db", 5)], "30")],
            "own, 20 > 5 Relist; holds 5"),
    ]);
}

/// A silent watch tells late, and one by one, what a writer did: whoever looks once it told one of them sees what all of them tell.
#[test]
#[rustfmt::skip]
fn of_the_events_that_an_answer_overtook_one_is_told_and_none_is_stored() {
    histories(Scene::with_db, &[
        ("an event", &[Sent, Answer("u", 7), Event("u", 6)],
            "own, 7 > 7 Event; holds 7, untold"),
        ("several, behind several answers; of what the next answer shows, nobody was told", &[
            Sent, Answer("u", 6), Sent, Answer("u", 7), Sent, Answer("u", 8), Event("u", 6), Event("u", 7), Event("u", 8),
            Sent, Answer("u", 11), Event("u", 9), Event("u", 10),
        ], "own, own, own, 8 > 8 Event, own, 11 > 11 Event; holds 11, untold"),
        ("a request holds one back, whose writer looks again: the subscriber may have other readers of it", &[
            Sent, Answer("u", 9), Sent, Event("u", 6), Answer("u", 9), Event("u", 7), Event("u", 8),
        ], "own, overtaken, 9 > 9 Event; holds 9, untold"),
        ("the deletion of the one before, which we created anew", &[Sent, Answer("new", 9), Deletion("u", 8), Event("new", 9), Deletion("new", 10)],
            "own, 5 > 9 Write, 9 > 9 Deleted, 10 > none Deleted; holds none"),
        ("a watch by a label tells as a deletion that it was lost, and the write gave it back", &[Sent, Answer("u", 7), Deletion("u", 6), Event("u", 7), Deletion("u", 8)],
            "own, 7 > 7 Deleted, 8 > none Deleted; holds none"),
        ("a deletion counts where the server was put back: the list in progress has not come to it", &[Sent, Answer("u", 20), ListBegins, Deletion("u", 12)],
            "own, 12 > none Deleted; holds none"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_lost_answer_tells_what_was_held_back() {
    histories(Scene::with_db, &[
        ("nothing", &[Sent, Dropped],
            "dropped; holds 5"),
        ("an event", &[Sent, Event("u", 6), Dropped],
            "dropped, 5 > 6 Event; holds 6"),
        ("a deletion, with the last state", &[Sent, Event("u", 6), Event("u", 7), Deletion("u", 8), Dropped],
            "dropped, 8 > none Deleted; holds none"),
        ("a deletion, which an answer tells as well", &[Sent, Event("u", 6), Event("u", 7), Deletion("u", 8), Answer("u", 6)],
            "overtaken, 8 > none Deleted; holds none"),
        ("what a list does not show was not seen being deleted", &[Sent, List(&[], "9"), Dropped],
            "dropped, 5 > none Event; holds none"),
    ]);
}

#[test]
#[rustfmt::skip]
fn an_answer_that_tells_the_end_is_a_deletion_of_what_was_known_when_it_was_sent() {
    histories(Scene::with_db, &[
        ("its event is no change", &[Sent, Ended("u"), Answer("u", 5), Deletion("u", 6)],
            "overtaken, 5 > none Deleted; holds none"),
        ("another one is in its place", &[Event("new", 7), Sent, Ended("u"), Dropped],
            "5 > 7 Event, dropped; holds 7"),
        ("a list came meanwhile: its server was put back, perhaps", &[Sent, List(&[("db", 5)], "5"), Ended("u"), Dropped],
            "dropped; holds 5"),
        ("a watch shows again what it was not allowed to show for a while", &[Sent, Deletion("u", 6), Event("u", 7), Ended("u"), Dropped, Event("u", 8)],
            "dropped, 5 > 7 Event, 7 > 8 Event; holds 8"),
        ("an event from before does not bring it back, and the list of a server that was put back does", &[Sent, Ended("u"), Dropped, Event("u", 6), List(&[("db", 5)], "5")],
            "dropped, 5 > none Deleted, none > 5 Relist; holds 5"),
        ("a read finds nothing", &[Sent, Missing, Dropped],
            "dropped, 5 > none Deleted; holds none"),
        ("a read finds nothing, and another one came meanwhile", &[Sent, Missing, Dropped, Sent, Event("new", 7), Missing, Dropped],
            "dropped, 5 > none Deleted, dropped, none > 7 Event; holds 7"),
    ]);
}

/// Two sources want the same place: what one of them made there is gone, and the other's request is still under way.
#[test]
#[rustfmt::skip]
fn an_object_that_goes_while_another_one_takes_its_place_is_told() {
    histories(Scene::with_db, &[
        ("by an event, before ours is created", &[Sent, Deletion("u", 6), Answer("new", 7)],
            "overtaken, 6 > none Deleted; holds none"),
        ("by a list that began before the write", &[ListBegins, Sent, ListEnds("8"), Answer("new", 9)],
            "overtaken, 5 > none Event; holds none"),
    ]);
    histories(Scene::new, &[
        ("it comes and goes while an answer is lost", &[Sent, Event("one", 5), Deletion("one", 6), Event("other", 7), Dropped],
            "dropped, 5 > 7 Event; holds 7"),
        ("it comes and goes before an answer", &[Sent, Event("one", 5), Deletion("one", 6), Event("other", 7), Answer("other", 7)],
            "overtaken, 5 > 7 Event; holds 7"),
    ]);
}

#[test]
fn a_list_removes_what_it_does_not_hold_and_says_nothing_of_the_rest() {
    let scene = Scene::new();
    scene.list(&[("a", 2), ("b", 3)], "4");
    scene.heard();
    scene.list(&[("b", 3), ("c", 9)], "9");
    let expected = [told("c", None, Some(9), ChangeCause::Relist), told("a", Some(2), None, ChangeCause::Relist)];
    assert_eq!(scene.heard(), expected);
}

#[test]
fn the_first_complete_list_is_the_initial_one() {
    let store = Store::new(ClustersOf::Annotated);
    let (_subscription, heard) = listen(&store);
    let stores = Stores::new(store, None);
    let _ = stores.begin_list();
    let listing = stores.begin_list();
    listing.item(Parsed::read(&text("c", "a", "u", 2, None)).unwrap()).unwrap();
    listing.finish("3");
    assert_eq!(*heard.lock().unwrap(), [told("a", None, Some(2), ChangeCause::InitialList)]);
}

#[test]
fn owners_are_found_and_forgotten() {
    let scene = Scene::new();
    let put = |name: &str, version, owner| {
        scene.store.put(Parsed::read(&text("c", name, "u", version, owner)).unwrap()).unwrap();
    };
    put("a", 2, Some("o1"));
    put("b", 3, Some("o1"));
    put("x", 4, Some("o2"));
    let owned =
        |owner| scene.store.of_owner(owner, None).iter().map(|(key, _)| key.name.to_string()).collect::<Vec<_>>();
    assert_eq!((owned("o1"), owned("o2")), (vec!["a".into(), "b".into()], vec!["x".to_owned()]));
    put("a", 5, Some("o2"));
    put("b", 6, None);
    assert_eq!((owned("o1"), owned("o2")), (vec![], vec!["a".to_owned(), "x".into()]));
    scene.deletion("a", "u", 8);
    assert_eq!(owned("o2"), ["x"]);
    // A tenant forges the label in another cluster.
    scene.store.put(Parsed::read(&text("other", "forged", "u", 9, Some("o2"))).unwrap()).unwrap();
    let in_cluster = |cluster| scene.store.of_owner("o2", Some(&key(cluster, "x").cluster)).len();
    assert_eq!((owned("o2").len(), in_cluster("c"), in_cluster("other"), in_cluster("third")), (2, 1, 1, 0));
}

#[test]
fn lists_are_in_the_order_of_names() {
    let scene = Scene::new();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for name in names.iter().rev() {
        scene.store.put(Parsed::read(&text("c", name, "u", 1, Some("o"))).unwrap()).unwrap();
    }
    let keys = names.map(|name| key("c", name));
    let of = |found: Vec<(Key, Arc<Object>)>| found.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!(of(scene.store.of_cluster(&keys[0].cluster)), keys);
    assert_eq!(of(scene.store.of_owner("o", None)), keys);
    assert_eq!(scene.store.keys(), keys);
}

#[test]
fn an_answer_that_is_no_object_is_as_good_as_lost() {
    let scene = Scene::with_db();
    let broken = |version| text("c", "db", "u", version, None).strip_suffix('}').unwrap().to_owned() + r#","spec":}"#;
    let write = scene.subscription.expect(&key("c", "db"));
    scene.event("db", "u", 6);
    let completed = Parsed::from_json(broken(7).as_bytes()).and_then(|answer| write.complete(&answer));
    assert!(completed.is_err());
    assert_eq!(scene.heard(), [told("db", Some(5), Some(6), ChangeCause::Event)]);
    assert_eq!(scene.version("db").as_deref(), Some("6"));
}

#[test]
fn other_subscribers_hear_of_a_write() {
    let scene = Scene::new();
    let (_other, heard) = listen(&scene.store);
    let _ = answered(scene.subscription.expect(&key("c", "db")), object("db", "u", 6));
    assert_eq!(scene.heard(), []);
    assert_eq!(*heard.lock().unwrap(), [told("db", None, Some(6), ChangeCause::Write)]);
}

/// A watch shows what it may not see any more as deleted, and so does a list.
#[test]
fn what_was_asked_for_is_read_once_more_after_the_watch_showed_its_end() {
    let store = Store::bounded(ClustersOf::Annotated, "", true, &[], None);
    let stores = Stores::new(store.clone(), None);
    stores.begin_list().finish("1");
    let subscription = store.subscribe(|_| {});
    let (at, text) = (key("c", "db"), text("c", "db", "u", 5, None));
    let put = || assert!(store.put(Parsed::read(&text).unwrap()).unwrap());
    let is_unread = || matches!(subscription.ask(&at), Cached::Unread);
    assert!(is_unread(), "the list passed it by");
    subscription.looked(&at, subscription.list());
    assert!(!is_unread());
    put();
    assert!(!is_unread());
    assert!(store.delete(Parsed::read(&text).unwrap()));
    assert!(is_unread());
    stores.begin_list().finish("7");
    assert!(is_unread(), "it may be out of sight");
    subscription.looked(&at, subscription.list());
    assert!(!is_unread());
    put();
    stores.begin_list().finish("9");
    assert!(store.is_empty() && is_unread());
}

/// A server that was restored may have passed the version that was heard, before anybody asks for it.
#[test]
fn an_object_that_is_not_newer_and_not_known_as_it_is_shown_is_of_another_history() {
    let scene = Scene::with_db();
    let is_other = |name: &str, uid: &str, version: u64| {
        let text = text("c", name, uid, version, None);
        scene.stores.contradict(&Parsed::read(&text).unwrap(), "6")
    };
    // What is shown when everything up to version 6 was heard, and whether that is another history.
    let rows = [
        ("db", "u", 5, false, "it is known so"),
        ("db", "u", 7, false, "it has changed since"),
        ("db", "v", 7, false, "it was made anew since"),
        ("new", "n", 7, false, "it was created since"),
        ("db", "u", 4, true, "its last change is lost"),
        ("db", "u", 6, true, "it was changed in another history"),
        ("db", "v", 5, true, "it was made anew in another history"),
        ("new", "n", 6, true, "it was created in another history"),
    ];
    for (name, uid, version, expected, case) in rows {
        assert_eq!(is_other(name, uid, version), expected, "{case}");
    }
    scene.subscription.expect(&key("c", "db")).ended("u");
    assert!(!is_other("db", "u", 5), "it was read before its end, which is known by now");
    let pending = scene.subscription.expect(&key("c", "new"));
    let _ = answered(pending, object("new", "n", 8));
    assert!(!is_other("new", "n", 6), "it was read before a write, which is answered by now");
    scene.stores.begin_list();
    assert!(!is_other("other", "o", 3), "its page is still to come");
}

#[test]
fn a_dropped_subscription_hears_nothing() {
    let scene = Scene::new();
    let Scene { store, subscription, heard, .. } = scene;
    drop(subscription);
    store.put(Parsed::read(&text("c", "db", "u", 3, None)).unwrap()).unwrap();
    assert!(heard.lock().unwrap().is_empty());
}

proptest! {
    /// Whatever the order of answers and events of one history, the store ends in its last state, and whoever
    /// reads the store at each notification (and after each `true`) has seen that state.
    #[test]
    fn any_interleaving_ends_in_the_last_state(
        ours in proptest::collection::vec(any::<bool>(), 1..8),
        answers_late_by in proptest::collection::vec(0usize..6, 8),
        complete in proptest::collection::vec(any::<bool>(), 8),
    ) {
        let scene = Scene::new();
        let mut seen = None;
        let mut pending: Vec<(usize, PendingWrite, Arc<Object>)> = Vec::new();
        let look = |seen: &mut Option<String>| *seen = scene.version("db");
        for (at, is_ours) in ours.iter().enumerate() {
            let version = 10 + at as u64;
            // Writes of one request follow one another: the earlier answer is in before the next write is sent.
            if *is_ours && pending.is_empty() {
                let write = scene.subscription.expect(&key("c", "db"));
                pending.push((at + answers_late_by[at], write, object("db", "u", version)));
            }
            scene.event("db", "u", version);
            if !scene.heard().is_empty() { look(&mut seen); }
            while let Some(due) = pending.iter().position(|(due, ..)| *due <= at) {
                let (_, write, answer) = pending.remove(due);
                if complete[at] {
                    let own = answer.resource_version().to_owned();
                    if answered(write, answer) { look(&mut seen) } else { seen = Some(own) }
                } else {
                    drop(write);
                    if !scene.heard().is_empty() { look(&mut seen); }
                }
            }
        }
        for (_, write, answer) in pending.drain(..) {
            let own = answer.resource_version().to_owned();
            if answered(write, answer) { look(&mut seen) } else { seen = Some(own) }
        }
        let last = Some((10 + ours.len() as u64 - 1).to_string());
        prop_assert_eq!(scene.version("db"), last.clone());
        prop_assert_eq!(seen, last);
    }
}

/// A store whose large objects are outlines, and an object of so many bytes for it.
fn bounded(bodies: &Bodies) -> Arc<Store> {
    Store::bounded(ClustersOf::Annotated, "", false, &[], Some(bodies.clone()))
}

fn large(cluster: &str, name: &str, version: u64, bytes: usize) -> String {
    // Nothing that could be packed.
    let mut state = name.bytes().fold(version + 1, |state, byte| state * 31 + u64::from(byte));
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b' ' + 3 + (state >> 40) as u8 % 50)
    };
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": "u", "resourceVersion": version.to_string(), "finalizers": ["f"],
            "labels": {"sync-engine.dev/owner": "o", "app": "a"}, "annotations": {"kcp.io/cluster": cluster, "note": "n"},
        },
        "spec": {"text": (0..bytes).map(|_| letter()).collect::<String>()},
    })
    .to_string()
}

/// A thousand mappings have some ten stores each, and few objects in each of them.
#[test]
fn of_many_stores_each_keeps_few_texts_unpacked() {
    let text =
        |name: usize| json!({"metadata": {"name": name.to_string()}, "spec": {"text": "a".repeat(500)}}).to_string();
    for (stores, unpacked) in [(1, 20), (1_024, 8)] {
        let bodies = Bodies::default();
        let new =
            || Store::bounded(ClustersOf::One(key("c", "a").cluster.clone()), "", false, &[], Some(bodies.clone()));
        let stores: Vec<_> = (0..stores).map(|_| new()).collect();
        let store = &stores[0];
        (0..20).for_each(|name| assert!(store.put(Parsed::read(&text(name)).unwrap()).unwrap()));
        let plain =
            store.keys().iter().filter(|key| store.get(key).is_some_and(|one| one.takes() == one.length())).count();
        assert_eq!(plain, unpacked, "{} stores", stores.len());
        assert!(store.keys().iter().all(|key| store.get(key).unwrap().value().is_ok()));
    }
}

#[test]
fn of_an_object_that_is_too_large_an_outline_is_kept() {
    let (bodies, at) = (Bodies::default(), key("c", "a"));
    let store = bounded(&bodies);
    let subscription = store.subscribe(|_| {});
    let text = large("c", "a", 3, 1 << 20);
    store.put(Parsed::read(&text).unwrap()).unwrap();
    let outline = store.get(&at).unwrap();
    assert!(!outline.is_whole() && outline.value().is_err() && outline.takes() < 1024);
    assert_eq!((outline.length(), outline.owner()), (text.len(), Some("o")));
    let known = outline.outline().unwrap();
    assert_eq!(known["metadata"]["finalizers"], json!(["f"]));
    assert_eq!(known["metadata"]["labels"], json!({"sync-engine.dev/owner": "o"}));
    assert_eq!(
        known["metadata"]["annotations"],
        json!({"kcp.io/cluster": "c"}),
        "others may write as much as they like"
    );
    let named = bodies.condition().unwrap().unwrap_err();
    assert!(named.ends_with(": c (1)"), "{named}");

    let read = subscription.expect(&at).complete(&Parsed::read(&text).unwrap()).unwrap().0;
    assert!(read.is_whole() && store.get(&at).unwrap().is_whole(), "while somebody has it");
    assert!(store.of_owner("o", None)[0].1.is_whole());
    drop(read);
    assert!(!store.get(&at).unwrap().is_whole());
    store.delete(Parsed::read(&text).unwrap());
    assert_eq!(bodies.condition(), Some(Ok(())));
}

#[test]
fn what_was_listed_without_its_body_is_kept_whole_once_it_is_read_unless_it_is_large() {
    let bodies = Bodies::default();
    let store = bounded(&bodies);
    let subscription = store.subscribe(|_| {});
    for (name, bytes, is_kept) in [("small", 100, true), ("large", 1 << 20, false)] {
        let whole = large("c", name, 3, bytes);
        let mut partial: serde_json::Value = serde_json::from_str(&whole).unwrap();
        partial.as_object_mut().unwrap().remove("spec");
        partial["kind"] = json!("PartialObjectMetadata");
        let partial = partial.to_string();
        let listed = || Parsed::read(&partial).unwrap().of_list(None, true);
        store.put(listed()).unwrap();
        let outline = store.get(&key("c", name)).unwrap();
        assert!(!outline.is_whole() && outline.owner() == Some("o"));
        assert_eq!(outline.outline().unwrap()["kind"], serde_json::Value::Null, "it is none of this kind");
        drop(subscription.expect(&key("c", name)).complete(&Parsed::read(&whole).unwrap()).unwrap());
        assert_eq!(store.get(&key("c", name)).unwrap().is_whole(), is_kept, "{name}");
        store.put(listed()).unwrap();
        assert_eq!(store.get(&key("c", name)).unwrap().is_whole(), is_kept, "{name}: the same version, listed again");
    }
    let named = bodies.condition().unwrap().unwrap_err();
    assert!(named.ends_with(": c (1)"), "{named}");
}

#[test]
fn a_tenant_has_room_for_so_many_bodies_and_others_have_theirs() {
    let bodies = Bodies::default();
    let store = bounded(&bodies);
    let put = |cluster: &str, number: usize| {
        for index in 0..number {
            let text = large(cluster, &format!("db-{index}"), 3, 200 << 10);
            store.put(Parsed::read(&text).unwrap()).unwrap();
        }
        let all = store.of_cluster(&ClusterName::try_from(cluster).unwrap());
        all.iter().filter(|(_, object)| object.is_whole()).count()
    };
    let kept = put("greedy", 400);
    assert!((100..400).contains(&kept), "{kept}");
    assert_eq!(put("modest", 10), 10);
}

#[test]
fn beyond_the_memory_of_the_process_the_cluster_with_most_bodies_loses_some() {
    let bodies = Bodies::new(Some(4 << 20));
    let store = bounded(&bodies);
    let put = |cluster: &str, name: &str, bytes: usize| {
        store.put(Parsed::read(&large(cluster, name, 3, bytes)).unwrap()).unwrap();
    };
    (0..5).for_each(|index| put("modest", &format!("db-{index}"), 100 << 10));
    (0..200).for_each(|index| put("greedy", &format!("db-{index}"), 200 << 10));
    let is_whole = |cluster: &str, name: &str| store.get(&key(cluster, name)).unwrap().is_whole();
    assert!((0..5).all(|index| is_whole("modest", &format!("db-{index}"))));
    let kept = (0..200).filter(|index| is_whole("greedy", &format!("db-{index}"))).count();
    assert!((1..20).contains(&kept), "{kept} of 200 KiB each");
}
