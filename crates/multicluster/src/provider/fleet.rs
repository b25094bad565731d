//! The clusters of several kubeconfigs.
//!
//! [`Members`](crate::environment::Members) list the kubeconfigs, and each cluster is followed on its own: one
//! that hangs delays no other. A list that cannot be read, and a kubeconfig that is broken, leave what was read before in
//! use.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{AbortHandle, Abortable, Aborted, BoxFuture, join_all, pending};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use super::fleet_members::FleetMembers;
use super::kubeconfig::KubeconfigProvider;
use super::members::{Group, Groups};
use crate::connection::{Connection, ConnectionSource, ConnectionSpec};
use crate::environment::{Environment, Listed, Opening, Reporter};
use crate::registry::{ClusterSpec, ProviderEvent};
use crate::silence::look_for_silence;
use sync_engine_mapping::Traits;
use sync_engine_mapping::object::ClusterName;

/// Describes every cluster that its members' kubeconfigs lead to.
pub struct Fleet {
    /// Name of the `ClusterProvider`.
    pub name: String,
    pub groups: Groups,
    pub environment: Environment,
    pub condition: Reporter,
}

/// How long a member that broke down rests.
const REST: Duration = Duration::from_secs(1);

enum News {
    /// What a look at a group found, and the group's number.
    Listed(usize, Result<Found, String>),
    /// What a member leads to, or why that cannot be told. The connection tells it from a former member of its name.
    Told(KubeconfigProvider, Result<Box<ClusterSpec>, String>),
}

/// The members of a group, by the names that they have in the fleet.
#[derive(Debug, Default, Clone)]
struct Found {
    connections: BTreeMap<ClusterName, Arc<Connection>>,
    traits: BTreeMap<ClusterName, Traits>,
    /// What is listed and cannot be a member, and why.
    refused: Vec<String>,
}

/// A member that is followed.
struct Followed {
    connection: Arc<Connection>,
    /// Rung when the configuration may be another.
    look_again: Arc<Notify>,
    condition: Reporter,
    configuration: Reporter,
    answers: Reporter,
    task: AbortHandle,
    /// Why it does not answer.
    trouble: Option<String>,
}

type Tasks = FuturesUnordered<Abortable<BoxFuture<'static, ()>>>;

impl Fleet {
    pub(super) async fn run(self, events: mpsc::Sender<ProviderEvent>) {
        let Self { name, groups: Groups { groups, refused }, environment, condition } = self;
        // The set may change as it likes: ownership goes by the identity of each cluster.
        if events.send(ProviderEvent::Identity(format!("fleet/{name}"))).await.is_err() {
            return;
        }
        if groups.is_empty() {
            let why = refused.into_iter().next().unwrap_or_else(|| "it joins no provider".to_owned());
            condition.report(Err(why));
            return pending().await;
        }
        let (tell, mut news) = mpsc::channel(16);
        let of = environment.clone();
        let opener = || Opener { fleet: name.clone(), environment: of.clone(), ..Opener::default() };
        let mut fleet = Running {
            environment,
            condition,
            tell: tell.clone(),
            refused,
            listed: vec![ListedGroup::default(); groups.len()],
            members: FleetMembers::default(),
            followed: BTreeMap::new(),
        };
        let mut tasks = Tasks::new();
        let lists = groups.into_iter().enumerate();
        let lists = lists.map(|(number, group)| list(group, number, opener(), tell.clone()));
        let mut listing = std::pin::pin!(join_all(lists));
        loop {
            let found = tokio::select! {
                biased;
                Some(one) = news.recv() => {
                    let found = fleet.handle(one, &tasks);
                    fleet.ask_again();
                    found
                }
                Some(Ok(()) | Err(Aborted)) = tasks.next() => continue,
                _ = &mut listing => return,
            };
            for event in found {
                if events.send(event).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Lists the members of a group, for good; a panic starts it again.
async fn list(mut group: Group, number: usize, mut opener: Opener, tell: mpsc::Sender<News>) {
    loop {
        let look = async {
            let listed = group.members.look().await?;
            Ok(opener.connect(group.named(listed)).await)
        };
        let found = AssertUnwindSafe(look).catch_unwind().await;
        let found = found.unwrap_or_else(|_| Err("it broke down, which is a bug; it begins anew".to_owned()));
        if tell.send(News::Listed(number, found)).await.is_err() {
            return;
        }
        group.members.changed().await;
    }
}

/// Opens the connections to the members of a group, each once.
#[derive(Default)]
struct Opener {
    fleet: String,
    environment: Environment,
    opened: BTreeMap<ClusterName, Arc<Connection>>,
    /// Those that could not be opened yet. The files of some may hang.
    opening: BTreeMap<ClusterName, (ConnectionSource, Opening)>,
}

impl Opener {
    async fn connect(&mut self, listed: Listed) -> Found {
        let Listed { mut members, traits, mut refused } = listed;
        self.opened.retain(|name, connection| members.get(name) == Some(connection.source()));
        members.retain(|name, _| !self.opened.contains_key(name));
        self.opening.retain(|name, (source, _)| members.get(name) == Some(&*source));
        for (name, source) in members {
            self.opening.entry(name).or_insert_with(|| (source, Opening::default()));
        }
        let (fleet, environment) = (&self.fleet, &self.environment);
        // At the same time: one that hangs keeps no other from being opened.
        let opened = join_all(self.opening.iter_mut().map(|(name, (source, opening))| async move {
            let spec = ConnectionSpec { name: format!("{fleet}/{name}"), source: source.clone() };
            (name.clone(), environment.open(spec, opening).await)
        }))
        .await;
        for (name, opened) in opened {
            match opened {
                Ok(connection) => {
                    self.opening.remove(&name);
                    self.opened.insert(name, connection);
                }
                Err(why) => refused.push(why),
            }
        }
        Found { connections: self.opened.clone(), traits, refused }
    }
}

/// What is known of a group.
#[derive(Debug, Default, Clone)]
struct ListedGroup {
    /// As it was listed last.
    listed: Option<Found>,
    /// Why it cannot be listed now.
    trouble: Option<String>,
}

/// The members as they are followed now.
struct Running {
    environment: Environment,
    condition: Reporter,
    tell: mpsc::Sender<News>,
    /// What can never be listed, and why.
    refused: Vec<String>,
    listed: Vec<ListedGroup>,
    members: FleetMembers,
    followed: BTreeMap<ClusterName, Followed>,
}

impl Running {
    fn handle(&mut self, news: News, tasks: &Tasks) -> Vec<ProviderEvent> {
        match news {
            News::Listed(number, found) => {
                if let Some(known) = self.listed.get_mut(number) {
                    known.trouble = found.as_ref().err().cloned();
                    known.listed = found.ok().or(known.listed.take());
                }
                self.follow(tasks)
            }
            News::Told(KubeconfigProvider { connection, name }, found) => {
                let is_it = |followed: &&mut Followed| Arc::ptr_eq(&followed.connection, &connection);
                let Some(followed) = self.followed.get_mut(&name).filter(is_it) else { return Vec::new() };
                followed.trouble = found.as_ref().err().cloned();
                let events = self.members.tell(&name, found.ok().map(|spec| *spec));
                self.report(|of| *of == name);
                events
            }
        }
    }

    /// Follows exactly the members that are listed. One that still is is looked at again: its kubeconfig may be another.
    fn follow(&mut self, tasks: &Tasks) -> Vec<ProviderEvent> {
        let mut refused = self.refused.clone();
        let (mut traits, mut connections) = (BTreeMap::new(), BTreeMap::new());
        let troubles: Vec<String> = self.listed.iter().filter_map(|known| known.trouble.clone()).collect();
        for found in self.listed.iter().filter_map(|known| known.listed.clone()) {
            connections.extend(found.connections);
            traits.extend(found.traits);
            refused.extend(found.refused);
        }
        self.followed.retain(|name, followed| {
            connections.get(name).is_some_and(|connection| Arc::ptr_eq(connection, &followed.connection))
        });
        for (name, connection) in connections {
            match self.followed.get(&name) {
                Some(followed) => followed.look_again.notify_one(),
                None => self.start(name, connection, tasks),
            }
        }
        match (troubles.is_empty(), refused.is_empty()) {
            (true, true) => self.condition.report(Ok(())),
            (true, false) => self.condition.degrade(summed_up(&refused)),
            (false, _) => self.condition.report(Err(summed_up(&[troubles, refused].concat()))),
        }
        let is_complete = self.listed.iter().all(|known| known.listed.is_some());
        let events = self.members.list(&self.followed.keys().cloned().collect(), traits, is_complete);
        self.report(|_| true);
        events
    }

    fn start(&mut self, name: ClusterName, connection: Arc<Connection>, tasks: &Tasks) {
        let (condition, look_again) = (self.condition.of_cluster(&name), Arc::<Notify>::default());
        let provider = KubeconfigProvider { connection: connection.clone(), name: name.clone() };
        let following = follow(provider, self.tell.clone(), condition.clone());
        let configuration = self.environment.configuration_of(connection.name(), connection.trouble());
        let reloading = reload(connection.clone(), look_again.clone(), configuration.clone());
        let answers = self.environment.answers_of(&connection);
        let answering = look_for_silence(connection.clone(), answers.clone());
        let all = async move {
            tokio::join!(following, reloading, answering);
        };
        let (task, registration) = AbortHandle::new_pair();
        tasks.push(Abortable::new(all.boxed(), registration));
        let followed = Followed { connection, look_again, condition, configuration, answers, task, trouble: None };
        self.followed.insert(name, followed);
    }

    /// A member that is needed now is asked which cluster it leads to.
    fn ask_again(&mut self) {
        for name in self.members.take_doubtful() {
            if let Some(followed) = self.followed.get(&name) {
                followed.connection.identity().doubt();
            }
        }
    }

    /// The condition of each cluster that answered, or failed to. A kubeconfig that leads to the cluster of another is no
    /// fault of the cluster, and of no use.
    fn report(&self, is_meant: impl Fn(&ClusterName) -> bool) {
        for (name, followed) in self.followed.iter().filter(|(name, _)| is_meant(name)) {
            let double = self.members.double_of(name).map(|other| {
                format!("it is the same cluster as `{other}`, through which it is served; remove one of the two")
            });
            match followed.trouble.clone().or(double) {
                Some(why) => followed.condition.report(Err(why)),
                None if self.members.is_known(name) => followed.condition.report(Ok(())),
                None => {}
            }
        }
    }
}

/// The first of several troubles in full: a condition is a line.
fn summed_up(troubles: &[String]) -> String {
    const SHOWN: usize = 3;
    let more = troubles.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("{}{more}", troubles[..troubles.len().min(SHOWN)].join("; "))
}

impl Drop for Followed {
    fn drop(&mut self) {
        // It is polled by the task that drops this, so it reports nothing after it.
        self.task.abort();
        self.condition.withdraw();
        self.configuration.withdraw();
        self.answers.withdraw();
    }
}

/// Tells what a member leads to, for good; a panic starts it again.
async fn follow(provider: KubeconfigProvider, tell: mpsc::Sender<News>, condition: Reporter) {
    loop {
        let tell = |found: Result<ClusterSpec, String>| {
            let (tell, member) = (tell.clone(), provider.clone());
            async move { tell.send(News::Told(member, found.map(Box::new))).await.is_ok() }
        };
        if AssertUnwindSafe(provider.follow(tell)).catch_unwind().await.is_ok() {
            return;
        }
        condition.report(Err("it broke down, which is a bug; it begins anew".to_owned()));
        sleep(REST).await;
    }
}

/// Reads a member's configuration again whenever it may be another.
async fn reload(connection: Arc<Connection>, look_again: Arc<Notify>, configuration: Reporter) {
    loop {
        look_again.notified().await;
        configuration.report_reload(connection.name(), &connection.reload().await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::write;
    use crate::directory::PATIENCE;

    /// A pipe that nobody writes to is a file on a mount that hangs.
    #[tokio::test(start_paused = true)]
    async fn a_member_whose_file_hangs_keeps_no_other_from_being_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (hung, works) = (folder.path().join("hung"), folder.path().join("works"));
        assert!(std::process::Command::new("mkfifo").arg(&hung).status().expect("mkfifo").success());
        write(&works, "http://127.0.0.1:1");
        let member = |path: &std::path::Path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let source = ConnectionSource::Kubeconfig { path: path.to_owned(), context: None };
            (ClusterName::try_from(name).expect("a name"), source)
        };
        let listed = Listed { members: [&hung, &works].map(|path| member(path)).into(), ..Listed::default() };
        let mut opener = Opener { fleet: "fleet".to_owned(), ..Opener::default() };
        // Files are read on other threads, which take as long as they take.
        let found = loop {
            let (found, ()) = tokio::join!(opener.connect(listed.clone()), tokio::time::advance(PATIENCE));
            if !found.connections.is_empty() {
                break found;
            }
        };
        assert_eq!(found.connections.keys().map(ClusterName::as_str).collect::<Vec<_>>(), ["works"]);
        assert_eq!(
            found.refused,
            ["connection `fleet/hung`: its configuration cannot be read: its file system has not answered for 30 s"]
        );
        std::fs::write(&hung, "").expect("whoever waits for it reads it");
    }
}
