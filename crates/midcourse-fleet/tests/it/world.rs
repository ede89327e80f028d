//! A fleet with its machines: databases on one server, and stores in temporary folders.

use std::sync::OnceLock;

use midcourse::{
    ChainEntry, ChainLimit, ChainPosition, DataDir, Durability, RunHeader, RunId, Store,
    StoreSettings,
};
use midcourse_fleet::schema::{self, Access};
use midcourse_fleet::{FleetTarget, Level, ShipSettings, Shipper};
use postgres_server::{OWNER, Server};

/// The server of all tests in this process.
pub(crate) fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&["fsync=off"])).as_ref()
}

/// A database with the schema, and the project `p` with the roles `writer…` and `reader…`. Roles belong
/// to the whole server, so their names contain the name of the database.
pub(crate) struct Fleet<'s> {
    pub(crate) server: &'s Server,
    pub(crate) database: String,
}

impl<'s> Fleet<'s> {
    pub(crate) fn new(server: &'s Server) -> Self {
        let fleet = Self { server, database: server.create_database() };
        let mut owner = fleet.client(OWNER);
        assert_eq!(schema::migrate(&mut owner).unwrap(), None);
        fleet.grant("p", "writer", Access::Write);
        fleet.grant("p", "reader", Access::Read);
        fleet
    }

    pub(crate) fn grant(&self, project: &str, role: &str, access: Access) {
        let role = self.role(role);
        schema::grant(&mut self.client(OWNER), project, &role, access, true).unwrap();
    }

    pub(crate) fn role(&self, role: &str) -> String {
        format!("{role}_{}", self.database)
    }

    pub(crate) fn target(&self, role: &str) -> FleetTarget {
        let role = if role == OWNER { role.to_owned() } else { self.role(role) };
        FleetTarget::parse(&self.server.url(&self.database, &role)).unwrap()
    }

    pub(crate) fn client(&self, role: &str) -> postgres::Client {
        self.target(role).connect().unwrap()
    }

    pub(crate) fn sql(&self, sql: &str) -> String {
        self.server.psql(&self.database, sql)
    }
}

/// A machine with a store.
pub(crate) struct Machine(tempfile::TempDir);

impl Machine {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn data_dir(&self) -> DataDir {
        DataDir::at(self.0.path().join("home"))
    }

    pub(crate) fn open(&self) -> Store {
        let settings = StoreSettings { durability: Durability::Normal, ..StoreSettings::default() };
        Store::open(&self.data_dir(), settings).unwrap()
    }

    pub(crate) fn shipper(&self, fleet: &Fleet<'_>, level: Level) -> Shipper {
        self.shipper_as(fleet, "writer", "p", level)
    }

    pub(crate) fn shipper_as(
        &self,
        fleet: &Fleet<'_>,
        role: &str,
        project: &str,
        level: Level,
    ) -> Shipper {
        let settings = ShipSettings { project: project.to_owned(), level };
        Shipper::open(&self.data_dir(), fleet.target(role), settings).unwrap().unwrap()
    }
}

/// Everything in a store, by run.
pub(crate) fn contents(store: &Store) -> Vec<(RunHeader, Vec<ChainEntry>)> {
    let runs = store.chain_ends().unwrap();
    let read = |(run_id, _): (RunId, _)| {
        let start = ChainPosition::start(&run_id);
        let part = store.chain_after(&run_id, &start, ChainLimit::NONE).unwrap();
        (part.header, part.entries)
    };
    let mut contents: Vec<_> = runs.into_iter().map(read).collect();
    contents.sort_by(|(a, _), (b, _)| a.run_id().cmp(b.run_id()));
    contents
}
