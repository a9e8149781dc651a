//! What scanning costs beside the least that it could: a search for one byte, and a bare search for the same literals.
//!
//! `cargo bench -p palisade-scan --features train`

#![allow(
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench stops at the first surprise"
)]

use std::{hint::black_box, time::Instant};

use aho_corasick::AhoCorasick;
use palisade_scan::{Scanner, training};

/// Bytes of the text that speeds are measured on.
const LARGE: usize = 64 << 20;
/// Rounds. The fastest counts: other programs only slow a round down.
const ROUNDS: usize = 5;

/// Sentences, records and marks as tables hold them. One speaks of an agent and a password, as some honest texts do.
const ASCII: &[&str] = &[
    "The kettle is blue, and its lid fits well; the handle stays cool even when the water boils for a long time.\n",
    "{\"id\": 48213, \"status\": \"shipped\", \"items\": [{\"sku\": \"KT-2210\", \"count\": 2}], \"total\": 41.80}\n",
    "2026-03-14T09:26:53Z INFO worker-7 request=9f3a2c finished in 184 ms, 12 rows, cache hit ratio 0.93\n",
    "Please call the customer back before Friday and ask whether the new address is the right one for the invoice.\n",
    "https://shop.example.com/products/kettle?colour=blue&size=2 was opened 31 times from 14 addresses this week\n",
    "fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> { self.inner.read(buffer) } // as the trait says\n",
    "Order 20931 arrived late, the box was dented, but everything inside was fine and the refund came within a day.\n",
    "| region | quarter | revenue | change |\n| north | Q3 | 1204431 | +4.1 % |\n",
    "She writes that the system asked for her password twice; the agent could not reproduce it with the same account.\n",
    "Minutes: budget approved, hiring paused until May, the release moves by one week, next meeting on the 14th.\n",
    "Three nights in the old town, breakfast until eleven, a quiet room to the courtyard; we would come again.\n",
    "Remove the panel, tighten both screws, and check that the fan turns freely before you close the case again.\n",
    "at org.example.billing.InvoiceService.create(InvoiceService.java:212) ~[billing-4.2.jar:4.2]\n",
    "Smith,Anna,anna.smith@example.com,1987-04-12,Leeds,LS1 4AP,+44 113 496 0000,gold,2019-11-02\n",
    "The committee thanks all donors; the roof is dry, the organ is tuned, and the choir sings on both Sundays.\n",
    "Fixed a crash when the list is empty, renamed two fields, and moved the parser tests to their own folder.\n",
    "Rain until noon, later bright spells with a moderate wind from the west, temperatures between 9 and 13 degrees.\n",
    "Fabric: 70 % cotton, 30 % linen. Wash at 30 degrees with similar colours, do not tumble dry, iron while damp.\n",
    "Patient reports less pain since Tuesday, sleeps through the night, walks without a stick; review in two weeks.\n",
    "Chapter 12. The train stood at the border for an hour, and nothing moved but the snow and the lamps.\n",
];

/// The same beyond ASCII.
const WIDE: &[&str] = &[
    "Die Lieferung kam pünktlich, nur die Größe stimmt nicht; bitte schicken Sie mir ein Rücksendeetikett.\n",
    "Клиент просит перезвонить после обеда и уточнить адрес доставки.\n",
    "El pedido llegó rápido y la atención fue muy buena, volveré a comprar aquí el próximo año.\n",
    "配送は早かったのですが、箱が少しつぶれていました。\n",
    "La commande a été livrée à l’heure, mais il manque une pièce dans le carton.\n",
];

/// `size` bytes of `ASCII`, and about one line in `every` of `WIDE`; in no order.
fn text(size: usize, every: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(size + 256);
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    while text.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let pick = usize::try_from(state >> 33).unwrap();
        let lines = if every != 0 && pick % every == 0 {
            WIDE
        } else {
            ASCII
        };
        text.extend(lines[pick / 64 % lines.len()].as_bytes());
    }
    text.truncate(size);
    text
}

/// Megabytes a second of the fastest of some rounds, which take turns.
fn speeds<const N: usize>(size: usize, run: [&dyn Fn(); N]) -> [f64; N] {
    let mut best = [f64::MAX; N];
    for _ in 0..ROUNDS {
        for (best, run) in best.iter_mut().zip(run) {
            let start = Instant::now();
            run();
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    best.map(|seconds| size as f64 / seconds / 1e6)
}

fn main() {
    let literals = training::literals();
    let automaton = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(&literals)
        .unwrap();
    let scanner = Scanner::new();
    black_box(scanner.detect(ASCII[0].as_bytes()));
    println!("{} literals, {} MiB of text", literals.len(), LARGE >> 20);
    println!(
        "{:<36} {:>10} {:>14} {:>10} {:>8} {:>8}",
        "MB/s", "one byte", "bare literals", "scanner", "share", "goal"
    );
    for (name, every, cell, goal) in [
        ("ASCII, one text", 0, LARGE, 0.5),
        ("ASCII, cells of 1 KiB", 0, 1 << 10, 0.5),
        ("5 % beyond ASCII, one text", 6, LARGE, 0.25),
        ("5 % beyond ASCII, cells of 1 KiB", 6, 1 << 10, 0.25),
    ] {
        let text = text(LARGE, every);
        let [byte, bare, scan] = speeds(
            LARGE,
            [
                &|| {
                    black_box(AhoCorasick::new(["\0"]).unwrap().find_iter(&text).count());
                },
                &|| {
                    black_box(automaton.find_iter(&text).count());
                },
                &|| {
                    for cell in text.chunks(cell) {
                        black_box(scanner.detect(cell));
                    }
                },
            ],
        );
        println!(
            "{name:<36} {byte:>10.0} {bare:>14.0} {scan:>10.1} {:>8.2} {goal:>8}",
            scan / bare
        );
    }
    println!("\nlinear growth: nanoseconds a byte");
    for size in [1 << 10, 32 << 10, 1 << 20, 64 << 20] {
        let text = text(size, 6);
        let times = (LARGE / size / 16).max(1);
        let [speed] = speeds(
            size * times,
            [&|| {
                for _ in 0..times {
                    black_box(scanner.detect(black_box(&text)));
                }
            }],
        );
        println!("{:>10} KiB {:>8.1}", size >> 10, 1e3 / speed);
    }
}
