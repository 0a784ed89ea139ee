use khz_block::{Encoder, SchemaEncoder};
use khz_model::{Instance, Series, metric};

use super::*;
use crate::counts::own_metric;
use crate::schemas::Schemas;

#[test]
fn a_lane_that_grows_with_every_block_holds_one_schema() {
    let metric =
        Arc::new(own_metric("a.b", "a_b", "A.", metric::Kind::Gauge, metric::Unit::Count, Some("x")));
    let (schemas, mut names, mut rows) =
        (Schemas::default(), SchemaEncoder::new(), Encoder::new(0, 1, Nanos(1)));
    let mut lane = Lane::new("base", 1, Nanos(1));
    for block in 0..50u64 {
        let instance = Some(Instance::from_kernel(block.to_string().as_bytes()));
        let mut piece = Vec::new();
        names.append(&Series { metric: metric.clone(), instance }, &mut piece).expect("room");
        let schema = schemas.grow(lane.schema(1).cloned(), &piece, None).expect("a good schema");
        lane.set_schema(1, schema);
        let mut bytes = Vec::new();
        rows.key_row(
            Stamp { boot: Nanos(block), real_offset: 0 },
            block as usize + 1,
            |_| (0, 1),
            &mut bytes,
        );
        rows.close();
        assert_eq!(lane.begin(&bytes, true), Ok(1));
    }
    let blocks = lane.blocks_since(Nanos(0));
    assert_eq!(blocks.len(), 50);
    assert!(blocks.iter().all(|block| Arc::ptr_eq(&block.schema, &blocks[0].schema)));
    assert_eq!(blocks[0].schema.series().len(), 50);
    // Who wants the past begins in the block that has its moment, in the oldest that there is, or in the present one.
    let first_row = |since| lane.join_since(Nanos(since)).first_row;
    assert_eq!([0, 7, 48, 49, 1_000].map(first_row), [0, 7, 48, 49, 49]);
    lane.trim(lane.recent_bytes / 2);
    let oldest = lane.recent[0].header.first_row;
    assert!(oldest > 7 && lane.join_since(Nanos(7)).first_row == oldest);
    // One that says less than a block needs is not taken for it.
    let (mut piece, mut names) = (Vec::new(), SchemaEncoder::new());
    names.append(&Series { metric, instance: None }, &mut piece).expect("room");
    lane.set_schema(1, schemas.grow(None, &piece, None).expect("a good schema"));
    assert_eq!(lane.blocks_since(Nanos(0)).last().expect("the present one").schema.series().len(), 50);
}
