//! The clusters of several kubeconfigs.
//!
//! [`Members`] list the kubeconfigs, and each cluster is followed on its own: one that hangs delays no other. A list that
//! cannot be read, and a kubeconfig that is broken, leave what was read before in use.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{AbortHandle, Abortable, Aborted, BoxFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use super::kubeconfig::KubeconfigProvider;
use super::roll::Roll;
use crate::multicluster::connection::{Connection, ConnectionSource, ConnectionSpec};
use crate::multicluster::environment::{Environment, Provider, Reporter};
use crate::multicluster::registry::{ClusterSpec, ProviderEvent};
use crate::object::ClusterName;

/// Where a fleet's kubeconfigs are listed.
pub trait Members: Send + 'static {
    /// Every kubeconfig there is.
    ///
    /// # Errors
    /// Why that cannot be told now.
    fn look(&mut self) -> impl Future<Output = Result<Listed, String>> + Send;

    /// Until another look may find something else.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;
}

/// What a look found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Listed {
    pub members: BTreeMap<ClusterName, ConnectionSource>,
    /// What is listed and cannot be a member, and why.
    pub refused: Vec<String>,
}

/// Describes every cluster that its members' kubeconfigs lead to.
pub struct Fleet<M> {
    /// Name of the `ClusterProvider`.
    pub name: String,
    pub members: M,
    pub environment: Environment,
    pub condition: Reporter,
}

/// How long a member that broke down rests.
const REST: Duration = Duration::from_secs(1);

enum News {
    Listed(Result<Listed, String>),
    /// What a member leads to, or why that cannot be told. The number tells it from a former member of its name.
    Told(ClusterName, u64, Result<Box<ClusterSpec>, String>),
}

/// A member that is followed.
struct Followed {
    number: u64,
    source: ConnectionSource,
    /// Rung when the configuration may be another.
    look_again: Arc<Notify>,
    condition: Reporter,
    configuration: Reporter,
    task: AbortHandle,
    /// Why it does not answer.
    trouble: Option<String>,
}

type Tasks = FuturesUnordered<Abortable<BoxFuture<'static, ()>>>;

impl<M: Members> Provider for Fleet<M> {
    async fn run(self, events: mpsc::Sender<ProviderEvent>) {
        let Self { name, members, environment, condition } = self;
        // The set may change as it likes: ownership goes by the identity of each cluster.
        if events.send(ProviderEvent::Identity(format!("fleet/{name}"))).await.is_err() {
            return;
        }
        let (tell, mut news) = mpsc::channel(16);
        let mut fleet = Running {
            name,
            environment,
            condition,
            tell: tell.clone(),
            roll: Roll::default(),
            followed: BTreeMap::new(),
            next: 0,
        };
        let mut tasks = Tasks::new();
        let mut listing = std::pin::pin!(list(members, tell));
        loop {
            let found = tokio::select! {
                biased;
                Some(one) = news.recv() => fleet.heed(one, &tasks),
                Some(Ok(()) | Err(Aborted)) = tasks.next() => continue,
                () = &mut listing => return,
            };
            for event in found {
                if events.send(event).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn list(mut members: impl Members, tell: mpsc::Sender<News>) {
    loop {
        let listed = members.look().await;
        if tell.send(News::Listed(listed)).await.is_err() {
            return;
        }
        members.changed().await;
    }
}

/// The members as they are followed now.
struct Running {
    name: String,
    environment: Environment,
    condition: Reporter,
    tell: mpsc::Sender<News>,
    roll: Roll,
    followed: BTreeMap<ClusterName, Followed>,
    next: u64,
}

impl Running {
    fn heed(&mut self, news: News, tasks: &Tasks) -> Vec<ProviderEvent> {
        match news {
            News::Listed(Ok(listed)) => self.follow(listed, tasks),
            News::Listed(Err(why)) => {
                self.condition.report(Err(why));
                Vec::new()
            }
            News::Told(name, number, found) => {
                let Some(followed) = self.followed.get_mut(&name).filter(|followed| followed.number == number) else {
                    return Vec::new();
                };
                followed.trouble = found.as_ref().err().cloned();
                let events = self.roll.tell(&name, found.ok().map(|spec| *spec));
                self.report(|of| *of == name);
                events
            }
        }
    }

    /// Follows exactly these members. One that is still listed is looked at again: its kubeconfig may be another.
    fn follow(&mut self, Listed { members, mut refused }: Listed, tasks: &Tasks) -> Vec<ProviderEvent> {
        self.followed.retain(|name, followed| members.get(name) == Some(&followed.source));
        for (name, source) in members {
            match self.followed.get(&name) {
                Some(followed) => followed.look_again.notify_one(),
                None => refused.extend(self.start(name, source, tasks).err()),
            }
        }
        self.condition.report(refused.into_iter().next().map_or(Ok(()), Err));
        let events = self.roll.list(&self.followed.keys().cloned().collect());
        self.report(|_| true);
        events
    }

    fn start(&mut self, name: ClusterName, source: ConnectionSource, tasks: &Tasks) -> Result<(), String> {
        let spec = ConnectionSpec { name: format!("{}/{name}", self.name), source: source.clone() };
        let connection = self.environment.open(spec).map_err(|error| error.to_string())?;
        let (condition, number, look_again) = (self.condition.of_cluster(&name), self.next, Arc::<Notify>::default());
        self.next += 1;
        let provider = KubeconfigProvider::new(connection.clone(), name.as_str(), None)?;
        let following = follow(provider, name.clone(), number, self.tell.clone(), condition.clone());
        let configuration = self.environment.configuration_of(connection.name());
        let reloading = reload(connection, look_again.clone(), configuration.clone());
        let both = async {
            tokio::join!(following, reloading);
        };
        let (task, registration) = AbortHandle::new_pair();
        tasks.push(Abortable::new(both.boxed(), registration));
        self.followed
            .insert(name, Followed { number, source, look_again, condition, configuration, task, trouble: None });
        Ok(())
    }

    /// The condition of each cluster that answered, or failed to. A kubeconfig that leads to the cluster of another is no
    /// fault of the cluster, and of no use.
    fn report(&self, is_meant: impl Fn(&ClusterName) -> bool) {
        for (name, followed) in self.followed.iter().filter(|(name, _)| is_meant(name)) {
            let double = self.roll.double_of(name).map(|other| {
                format!("it is the same cluster as `{other}`, through which it is served; remove one of the two")
            });
            match followed.trouble.clone().or(double) {
                Some(why) => followed.condition.report(Err(why)),
                None if self.roll.is_known(name) => followed.condition.report(Ok(())),
                None => {}
            }
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        // It is polled by the task that drops this, so it reports nothing after it.
        self.task.abort();
        self.condition.withdraw();
        self.configuration.withdraw();
    }
}

/// Tells what a member leads to, for good; a panic starts it again.
async fn follow(
    provider: KubeconfigProvider,
    name: ClusterName,
    number: u64,
    tell: mpsc::Sender<News>,
    condition: Reporter,
) {
    loop {
        let tell = |found: Result<ClusterSpec, String>| {
            let (tell, name) = (tell.clone(), name.clone());
            async move { tell.send(News::Told(name, number, found.map(Box::new))).await.is_ok() }
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
        let read = connection.clone();
        if let Ok(found) = tokio::task::spawn_blocking(move || read.reload()).await {
            configuration.heed(connection.name(), &found);
        }
    }
}
