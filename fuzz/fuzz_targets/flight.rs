//! Any bytes as a command, a ticket, a ticket with a right signature, or an action, sent to a node.
#![no_main]

use std::sync::OnceLock;

use arrow_flight::{Action, FlightDescriptor, Ticket, flight_service_client::FlightServiceClient};
use futures::StreamExt;
use libfuzzer_sys::fuzz_target;
use stylobate_server::{
    Doors, Node,
    config::{BucketConfig, NodeConfig},
};
use tokio::runtime::Runtime;
use tonic::transport::Channel;

const SECRET: &str = "a secret that the fuzzer knows as well";

fn bench() -> &'static (Runtime, FlightServiceClient<Channel>) {
    static BENCH: OnceLock<(Runtime, FlightServiceClient<Channel>)> = OnceLock::new();
    BENCH.get_or_init(|| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let mut config = NodeConfig::default();
            let folder = std::env::var("FUZZ_FOLDER").expect("a folder with files, as `make fuzz` makes it");
            config.buckets.push(BucketConfig::new("lake", folder));
            config.settings.listen.set_port(0);
            config.settings.admin.set_port(0);
            config.settings.flight = Some(([127, 0, 0, 1], 0).into());
            config.ticket_secret = Some(SECRET.to_owned().into());
            let doors = Doors::bind(&config).await.unwrap();
            let node = Node::open(&config).await.unwrap();
            let address = doors.flight_address().unwrap();
            tokio::spawn(doors.serve(node, std::future::pending()));
            let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
            FlightServiceClient::new(channel)
        });
        (runtime, client)
    })
}

fn sealed(content: &[u8]) -> Vec<u8> {
    let key = blake3::derive_key("stylobate 2026 key of flight tickets, version 1", SECRET.as_bytes());
    let mac = blake3::keyed_hash(&key, &[&[1], content].concat());
    [&[1], mac.as_bytes().as_slice(), content].concat()
}

fuzz_target!(|data: &[u8]| {
    let (runtime, client) = bench();
    let Some((kind, content)) = data.split_first() else { return };
    let mut client = client.clone();
    runtime.block_on(async {
        match kind % 5 {
            0 => {
                let descriptor = FlightDescriptor::new_cmd(content.to_vec());
                if let Ok(info) = client.get_flight_info(descriptor).await {
                    for endpoint in info.into_inner().endpoint {
                        drain(&mut client, endpoint.ticket.unwrap_or_default()).await;
                    }
                }
            }
            1 => drain(&mut client, Ticket::new(content.to_vec())).await,
            2 => drain(&mut client, Ticket::new(sealed(content))).await,
            3 => {
                let path = String::from_utf8_lossy(content).split('/').map(str::to_owned).collect();
                let _ = client.get_flight_info(FlightDescriptor::new_path(path)).await;
            }
            _ => {
                let (name, body) = content.split_at(content.len().min(5));
                let name = String::from_utf8_lossy(name).into_owned();
                let _ = client.do_action(Action::new(name, body.to_vec())).await;
            }
        }
    });
});

async fn drain(client: &mut FlightServiceClient<Channel>, ticket: Ticket) {
    let Ok(answer) = client.do_get(ticket).await else { return };
    let mut batches = answer.into_inner();
    while let Some(Ok(_)) = batches.next().await {}
}
