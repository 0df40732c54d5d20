//! A restart: SIGTERM ends the process within its grace period with no failed query, a new process
//! at the same address answers the same, and SIGKILL leaves nothing that hinders the next start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use lakeserve_tests::material;
use lakeserve_tests::server::{Start, free_port};
use serde_json::json;

const Q6: &str = "SELECT sum(l_extendedprice * l_discount) FROM t WHERE l_shipdate >= DATE '1994-01-01' \
    AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24";

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_the_same_after_a_restart() -> anyhow::Result<()> {
    let Some(material) = material::conformance("answers_are_the_same_after_a_restart") else { return Ok(()) };
    let lineitem = material.join("suites/tpch/data_sf0.01/lineitem.parquet");
    let port = free_port()?;
    let start = Start::up().table("t", lineitem.display().to_string()).port(port);
    let first = start.clone().ready().await?;
    let before = first.rows(Q6).await?;

    // Clients that ask on while the process is told to stop: each answer is right, or the
    // connection was refused or ended before an answer began; never a wrong or a cut answer.
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (stop, url, client, before) =
                (Arc::clone(&stop), first.url().to_owned(), first.client().clone(), before.clone());
            lakeserve_common::spawn::spawn("restart client", async move {
                let mut answered = 0;
                while !stop.load(Ordering::Relaxed) {
                    let request = client.post(format!("{url}/v1/query")).json(&json!({"sql": Q6}));
                    let Ok(answer) = request.send().await else { break };
                    let status = answer.status().as_u16();
                    let value: serde_json::Value = answer.json().await?;
                    if status == 503 {
                        break;
                    }
                    ensure!(status == 200 && value["rows"] == json!(before), "status {status}: {value}");
                    answered += 1;
                }
                Ok(answered)
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let status = first.terminate().await?;
    stop.store(true, Ordering::Relaxed);
    ensure!(status == 0, "ended with {status} on SIGTERM");
    let mut answered = 0;
    for client in clients {
        answered += client.await??;
    }
    ensure!(answered > 0, "no client was answered before the stop");

    let second = start.clone().ready().await?;
    ensure!(second.rows(Q6).await? == before);
    drop(second); // SIGKILL
    let third = start.ready().await?;
    ensure!(third.rows(Q6).await? == before);
    Ok(())
}
