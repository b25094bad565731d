use proptest::prelude::*;

use super::*;
use crate::multicluster::backoff::Backoff;
use crate::multicluster::queue::{Next, Queue, Requeue};

fn key(name: &str) -> Key {
    Key::new(ClusterName::try_from("c").unwrap(), "ns", name)
}

fn object(name: &str) -> Interest {
    Interest::Object(Collection::Target, key(name))
}

/// Runs a request that reads these objects.
fn run(index: &Interests, request: &str, reads: &[&str]) {
    let mut reader = index.reader(&key(request));
    reads.iter().for_each(|name| reader.object(&Collection::Target, &key(name), || ()));
    reader.finish(false);
}

fn woken(index: &Interests, interest: &Interest) -> Vec<String> {
    index.touch(interest, Priority::Live).into_iter().map(|(request, _)| request.name.to_string()).collect()
}

#[test]
fn a_change_wakes_its_readers_and_nobody_else() {
    let index = Interests::default();
    run(&index, "a", &["x"]);
    run(&index, "b", &["x", "y"]);
    assert_eq!(woken(&index, &object("y")), ["b"]);
    assert_eq!(woken(&index, &object("x")).len(), 2);
    assert_eq!(woken(&index, &object("z")), [""; 0]);
    assert_eq!(
        woken(&index, &Interest::Object(Collection::Sources("t".into()), key("x"))),
        [""; 0],
        "another collection"
    );
}

#[test]
fn objects_selections_and_topics_are_interests_of_their_own() {
    let index = Interests::default();
    let mut reader = index.reader(&key("a"));
    reader.read([Topic::PassComplete], || (), |()| true);
    reader.selection(&Collection::Target, "owner", || ());
    reader.finish(true);
    assert_eq!(woken(&index, &Interest::Topic(Topic::PassComplete)), ["a"]);
    assert_eq!(woken(&index, &Interest::Selection(Collection::Target, "owner".into())), ["a"]);
    assert_eq!(woken(&index, &object("owner")), [""; 0]);
    assert_eq!(woken(&index, &Interest::Topic(Topic::Schema("t".into()))), [""; 0]);
}

#[test]
fn what_siblings_read_is_of_one_run() {
    let index = Interests::default();
    let mut reader = index.reader(&key("a"));
    let mut sibling = reader.sibling();
    reader.object(&Collection::Target, &key("x"), || ());
    sibling.object(&Collection::Target, &key("x"), || ());
    sibling.read([Topic::PassComplete], || (), |()| true);
    reader.join(sibling);
    reader.finish(true);
    assert_eq!(index.size(), (1, 2));
    assert_eq!(woken(&index, &Interest::Topic(Topic::PassComplete)), ["a"]);
}

/// A source with thousands of related objects reads each of them in several plans, and on several targets.
#[test]
fn what_is_read_again_is_registered_once() {
    let index = Interests::default();
    for _ in 0..2 {
        let mut reader = index.reader(&key("a"));
        let mut siblings = [reader.sibling(), reader.sibling()];
        for name in (0..20_000).map(|number| key(&number.to_string())) {
            siblings.iter_mut().for_each(|sibling| sibling.object(&Collection::Target, &name, || ()));
        }
        siblings.into_iter().for_each(|sibling| reader.join(sibling));
        assert_eq!(reader.reads.len(), 20_000);
        reader.finish(false);
        assert_eq!((index.reads_of(&key("a")).len(), index.size()), (20_000, (1, 20_000)));
    }
    index.forget(&key("a"));
    assert_eq!(index.size(), (0, 0));
}

#[test]
fn a_fact_wakes_who_reads_it_now_or_waits_for_it() {
    let index = Interests::default();
    let topic = Interest::Topic(Topic::PassComplete);
    for (is_open, waits) in [(false, true), (true, false), (true, true)] {
        let mut reader = index.reader(&key("a"));
        reader.read([Topic::PassComplete], || (), |()| is_open);
        assert_eq!(woken(&index, &topic), ["a"], "the run is not over");
        reader.finish(waits);
        assert_eq!(index.size() == (1, 1), is_open && waits);
    }
    assert_eq!(woken(&index, &topic), ["a"]);
}

#[test]
fn what_a_request_read_last_is_known() {
    let index = Interests::default();
    run(&index, "a", &["x", "y"]);
    run(&index, "a", &["y"]);
    let read: Vec<_> = index.reads_of(&key("a")).iter().map(|interest| Interest::clone(interest)).collect();
    assert_eq!((read, index.reads_of(&key("b")).len()), (vec![object("y")], 0));
}

#[test]
fn a_run_that_breaks_off_keeps_what_it_read_and_what_it_had() {
    let index = Interests::default();
    run(&index, "a", &["x"]);
    let mut reader = index.reader(&key("a"));
    reader.object(&Collection::Target, &key("y"), || ());
    drop(reader);
    assert_eq!(woken(&index, &object("x")), ["a"]);
    assert_eq!(woken(&index, &object("y")), ["a"]);
}

#[test]
fn a_forgotten_request_leaves_nothing_behind() {
    let index = Interests::default();
    run(&index, "a", &["x"]);
    let mut reader = index.reader(&key("b"));
    reader.object(&Collection::Target, &key("x"), || ());
    index.forget(&key("a"));
    index.forget(&key("b"));
    reader.object(&Collection::Target, &key("y"), || ());
    reader.finish(false);
    assert_eq!(index.size(), (0, 0));
    assert_eq!(woken(&index, &object("x")), [""; 0]);
}

#[test]
fn a_large_fan_out_is_woken_behind_live_changes() {
    let index = Interests::default();
    let priority = |index: &Interests| index.touch(&object("x"), Priority::Live)[0].1;
    (0..FAN_OUT).for_each(|number| run(&index, &number.to_string(), &["x"]));
    assert_eq!(priority(&index), Priority::Live);
    run(&index, "one-more", &["x"]);
    assert_eq!(priority(&index), Priority::Initial);
}

#[test]
fn a_watch_stays_for_a_minute_after_its_last_reader() {
    let (index, start) = (Interests::default(), Instant::now());
    let at = |seconds| index.watches(start + Duration::from_secs(seconds));
    run(&index, "a", &["x"]);
    run(&index, "b", &["x", "y"]);
    assert_eq!(at(0), [Collection::Target].into());
    index.forget(&key("b"));
    assert_eq!(at(100), [Collection::Target].into());
    run(&index, "a", &[]);
    assert_eq!(at(200), [Collection::Target].into());
    assert_eq!(at(259), [Collection::Target].into());
    run(&index, "a", &["x"]);
    assert_eq!(at(300), [Collection::Target].into(), "somebody reads it again");
    run(&index, "a", &[]);
    assert_eq!(at(301), [Collection::Target].into());
    assert!(at(361).is_empty());
}

const VALUES: usize = 4;
const REQUESTS: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Op {
    /// A value changes; its readers hear of it with a later `Tell`.
    Change(usize),
    Tell,
    /// Takes the next request from the queue.
    Begin,
    /// A run reads a value; it may change right behind the read, with its readers told at once.
    Read {
        run: usize,
        value: usize,
        changes: bool,
    },
    Finish(usize),
    /// A run ends without a word, as after a panic.
    Break(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let runs = 0..REQUESTS.len();
    prop_oneof![
        2 => (0..VALUES).prop_map(Op::Change),
        2 => Just(Op::Tell),
        2 => Just(Op::Begin),
        6 => (runs.clone(), 0..VALUES, any::<bool>()).prop_map(|(run, value, changes)| Op::Read { run, value, changes }),
        2 => runs.clone().prop_map(Op::Finish),
        1 => runs.prop_map(Op::Break),
    ]
}

/// A run, and what it has read.
struct Running<'i> {
    request: Key,
    reader: Facts<'i>,
    read: BTreeMap<usize, u32>,
}

/// Values that change, requests that read them, and the queue in between.
struct World<'i> {
    index: &'i Interests,
    queue: Queue,
    values: [u32; VALUES],
    untold: Vec<usize>,
    running: Vec<Running<'i>>,
    /// What the last run of each request read.
    read: BTreeMap<Key, BTreeMap<usize, u32>>,
    now: Instant,
}

impl<'i> World<'i> {
    fn new(index: &'i Interests) -> Self {
        let now = Instant::now();
        let mut queue = Queue::new(Backoff { min: Duration::ZERO, max: Duration::ZERO }, 1);
        REQUESTS.iter().for_each(|name| queue.add(key(name), Priority::Initial, now));
        let (values, untold) = ([0; VALUES], Vec::new());
        Self { index, queue, values, untold, running: Vec::new(), read: BTreeMap::new(), now }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Change(value) => self.change(value),
            Op::Tell => self.tell(),
            Op::Begin => drop(self.begin()),
            Op::Read { run, value, changes } if run < self.running.len() => self.read(run, value, changes),
            Op::Finish(run) if run < self.running.len() => self.finish(run),
            Op::Break(run) if run < self.running.len() => self.break_off(run),
            _ => {}
        }
    }

    fn change(&mut self, value: usize) {
        self.values[value] += 1;
        self.untold.push(value);
    }

    fn tell(&mut self) {
        for value in self.untold.drain(..) {
            for (request, priority) in self.index.touch(&object(&value.to_string()), Priority::Live) {
                self.queue.add(request, priority, self.now);
            }
        }
    }

    fn begin(&mut self) -> bool {
        let Next::Ready(request) = self.queue.next(usize::MAX, self.now) else { return false };
        let reader = self.index.reader(&request);
        self.running.push(Running { request, reader, read: BTreeMap::new() });
        true
    }

    fn read(&mut self, run: usize, value: usize, changes: bool) {
        let (index, values, mut woken) = (self.index, &mut self.values, Vec::new());
        let Running { reader, read, .. } = &mut self.running[run];
        let seen = reader.object(&Collection::Target, &key(&value.to_string()), || {
            let before = values[value];
            if changes {
                values[value] += 1;
                woken = index.touch(&object(&value.to_string()), Priority::Live);
            }
            before
        });
        read.entry(value).or_insert(seen);
        woken.into_iter().for_each(|(request, priority)| self.queue.add(request, priority, self.now));
    }

    fn finish(&mut self, run: usize) {
        let Running { request, reader, read } = self.running.remove(run);
        reader.finish(false);
        self.read.insert(request.clone(), read);
        self.queue.finish(request, Requeue::Done, 1, self.now);
    }

    fn break_off(&mut self, run: usize) {
        let Running { request, reader, .. } = self.running.remove(run);
        drop(reader);
        self.queue.finish(request, Requeue::Retry, 1, self.now);
    }

    /// Lets everything under way end, until nothing is left to do.
    fn come_to_rest(&mut self) {
        loop {
            self.tell();
            while self.begin() {}
            if self.running.is_empty() {
                return;
            }
            while !self.running.is_empty() {
                // Each run reads again what its request read before.
                let before = self.read.get(&self.running[0].request).cloned().unwrap_or_default();
                before.keys().for_each(|value| self.read(0, *value, false));
                self.finish(0);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes between reading, changing and finishing: whoever has read an old value runs again.
    #[test]
    fn no_wake_up_is_lost(ops in proptest::collection::vec(op(), 1..80)) {
        let index = Interests::default();
        let mut world = World::new(&index);
        ops.into_iter().for_each(|op| world.step(op));
        world.come_to_rest();
        for (request, read) in &world.read {
            for (value, seen) in read {
                prop_assert_eq!(*seen, world.values[*value], "{} has read an old {}", request, value);
            }
        }
        let edges: usize = world.read.values().map(BTreeMap::len).sum();
        let registered: usize = index.index.lock().readers.values().map(Vec::len).sum();
        prop_assert_eq!(edges, registered, "what is registered is what the last runs read");
        world.read.keys().for_each(|request| index.forget(request));
        prop_assert_eq!(index.size(), (0, 0));
    }
}
