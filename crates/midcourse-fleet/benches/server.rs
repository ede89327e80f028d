//! The fleet of a benchmark.

use midcourse_fleet::FleetTarget;
use midcourse_fleet::schema::{self, Access};
use postgres_server::{OWNER, Server};

/// A database with the schema and the project `p`, which `writer` may ship to and `reader` may read.
pub(crate) struct Fleet<'s> {
    pub(crate) server: &'s Server,
    pub(crate) database: String,
}

impl<'s> Fleet<'s> {
    pub(crate) fn new(server: &'s Server) -> Self {
        let fleet = Self { server, database: server.create_database() };
        let mut owner = fleet.client(OWNER);
        schema::migrate(&mut owner).unwrap();
        schema::grant(&mut owner, "p", "writer", Access::Write, true).unwrap();
        schema::grant(&mut owner, "p", "reader", Access::Read, true).unwrap();
        fleet
    }

    pub(crate) fn target(&self, role: &str) -> FleetTarget {
        FleetTarget::parse(&self.server.url(&self.database, role)).unwrap()
    }

    pub(crate) fn client(&self, role: &str) -> postgres::Client {
        self.target(role).connect().unwrap()
    }
}
