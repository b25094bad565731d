//! A case: what it shows is its name, where it runs is data, and what it needs from the machine is checked before it starts.

use std::any::Any;
use std::cell::RefCell;
use std::fs;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use futures::FutureExt;
use libtest_mimic::{Completion, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::credentials;
use crate::fleet::{Fleet, On};
use crate::kube::ApiServer;
use crate::process::tail;

/// What a case is given: the servers, and a folder, an id and a user of its own.
pub struct Stage {
    pub fleet: Arc<Fleet>,
    pub on: On,
    /// Short, unique in the run, fit for every kind of name.
    pub id: String,
    pub folder: PathBuf,
    /// The user that the case's engines act as.
    pub user: String,
    kcp: OnceCell<Arc<ApiServer>>,
}

type Body = Box<dyn for<'s> Fn(&'s Stage) -> Pin<Box<dyn Future<Output = ()> + 's>> + Send + Sync>;

/// One scenario, and the sources that it runs on.
pub struct Case {
    name: String,
    real: Real,
    in_memory: bool,
    alone: bool,
    program: Option<Program>,
    body: Arc<Body>,
}

/// The real servers that a case runs on.
#[derive(Clone, Copy)]
enum Real {
    /// Any: kcp where there is one, else a plain cluster.
    One,
    Both,
    Only(On),
}

impl Real {
    fn sources(self, fleet: &Fleet) -> Vec<On> {
        match self {
            Self::One if fleet.missing(On::Kcp).is_some() => vec![On::Kube],
            Self::One => vec![On::Kcp],
            Self::Both => vec![On::Kcp, On::Kube],
            Self::Only(on) => vec![on],
        }
    }
}

/// Finds a program that nobody is required to have; Err says why it is missing.
type Program = fn() -> Result<PathBuf, String>;

impl Case {
    /// A case that rests on nothing but the engine; `case!` gives it the name of its function.
    pub fn new(name: String, body: Body) -> Self {
        Self { name, real: Real::One, in_memory: false, alone: false, program: None, body: Arc::new(body) }
    }

    /// What it shows may differ between kcp and a plain cluster.
    pub fn on_both(mut self) -> Self {
        self.real = Real::Both;
        self
    }

    /// It needs nothing that only real servers have: where one of its own is missing, it runs on those in memory.
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// Only kcp has what this is about.
    pub fn on_kcp(mut self) -> Self {
        self.real = Real::Only(On::Kcp);
        self
    }

    /// The source does not matter; the plain one is the cheapest.
    pub fn on_kube(mut self) -> Self {
        self.real = Real::Only(On::Kube);
        self
    }

    /// Stops a server that others use: runs while nothing else does.
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Runs where this program is found.
    pub fn with(mut self, program: Program) -> Self {
        self.program = Some(program);
        self
    }

    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// The trials of this case, `<source>::<theme>::<name>`.
    pub fn trials(self, fleet: &Arc<Fleet>, runtime: &Arc<Runtime>) -> Vec<Trial> {
        let Self { name, real, in_memory, alone, program, body } = self;
        let mut sources = real.sources(fleet);
        if in_memory && sources.iter().any(|&on| fleet.missing(on).is_some()) {
            sources.push(On::Sandbox);
        }
        sources
            .into_iter()
            .map(|on| {
                let (fleet, runtime, body) = (fleet.clone(), runtime.clone(), body.clone());
                let name = format!("{}::{name}", on.name());
                Trial::ignorable_test(name.clone(), move || {
                    if let Some(reason) = program.and_then(|find| find().err()) {
                        return fleet.machine.not_run(reason, false);
                    }
                    run(&name, fleet, on, alone, &runtime, &body)
                })
            })
            .collect()
    }
}

/// A case named for its module and function.
macro_rules! case {
    ($body:ident) => {{
        let theme = module_path!().rsplit("::").next().expect("a module");
        $crate::case::Case::new(format!("{theme}::{}", stringify!($body)), Box::new(|stage| Box::pin($body(stage))))
    }};
}
pub(crate) use case;

fn run(
    name: &str,
    fleet: Arc<Fleet>,
    on: On,
    alone: bool,
    runtime: &Runtime,
    body: &Body,
) -> Result<Completion, Failed> {
    if let Some(reason) = fleet.missing(on) {
        // No package registry has a kcp, so nobody can be required to have one.
        return fleet.machine.not_run(reason, on != On::Kcp);
    }
    let stage = Stage::new(name, fleet, on);
    let outcome = runtime.block_on(async {
        let turn = &stage.fleet.turn;
        let _guards = match alone {
            true => (Some(turn.write().await), None),
            false => (None, Some(turn.read().await)),
        };
        AssertUnwindSafe(body(&stage)).catch_unwind().await
    });
    outcome.map(|()| Completion::Completed).map_err(|panic| stage.failure(&*panic))
}

impl Stage {
    fn new(name: &str, fleet: Arc<Fleet>, on: On) -> Self {
        let number = fleet.next_engine();
        let folder = fleet.machine.folder.join(name.replace("::", "-"));
        fs::create_dir_all(&folder).expect("the case's folder");
        Self { fleet, on, id: format!("c{number:03}"), folder, user: credentials::engine(number), kcp: OnceCell::new() }
    }

    /// The case's kcp.
    pub async fn kcp(&self) -> &ApiServer {
        self.kcp.get_or_init(|| self.fleet.kcp()).await
    }

    /// The server of the consumers.
    pub async fn source_server(&self) -> &ApiServer {
        match self.on {
            On::Kcp => self.kcp().await,
            On::Kube => &self.fleet.kubernetes().await.source,
            On::Sandbox => panic!("a case on real servers"),
        }
    }

    /// What went wrong, and the last words of every engine of the case.
    fn failure(&self, panic: &(dyn Any + Send)) -> Failed {
        let logs = engine_logs(&self.folder);
        let words = logs.iter().map(|log| format!("\n--- the end of {}\n{}", log.display(), tail(log, 25)));
        Failed::from(format!("{}{}", message(panic), words.collect::<String>()))
    }
}

fn engine_logs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut logs: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "log")).collect();
    logs.sort();
    logs
}

thread_local! {
    /// The last panic of this thread, with its place; a case runs on one thread.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the text of a panic for the case's report instead of printing it between the lines of other cases.
pub fn collect_panics() {
    panic::set_hook(Box::new(|panic| LAST_PANIC.set(Some(panic.to_string()))));
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    LAST_PANIC.take().or(text).unwrap_or_else(|| "a panic without words".to_owned())
}
