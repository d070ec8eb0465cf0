//! The group of one: identities, with the checks of any group.

use spag_dist::{Error, ProcessGroup, Single};

#[test]
fn collectives_of_one_are_identities() {
    let mut group: Box<dyn ProcessGroup> = Box::new(Single);
    assert_eq!((group.rank(), group.size()), (0, 1));
    let values = [1.0, -2.5, 3.0];
    let mut buffer = values;
    group.all_reduce(&mut buffer).unwrap();
    group.broadcast(&mut buffer, 0).unwrap();
    assert_eq!(buffer, values);
    let mut whole = [0.0; 3];
    group.all_gather(&values, &mut whole).unwrap();
    assert_eq!(whole, values);
    let mut part = [0.0; 3];
    group.reduce_scatter(&values, &mut part).unwrap();
    assert_eq!(part, values);
    group.barrier().unwrap();
}

#[test]
fn wrong_lengths_and_ranks_are_refused() {
    assert_eq!(Single.broadcast(&mut [], 1), Err(Error::NoSuchRank { operation: "broadcast", rank: 1, size: 1 }));
    assert_eq!(
        Single.all_gather(&[0.0], &mut [0.0; 2]),
        Err(Error::BufferLength { operation: "all_gather", whole: 2, part: 1, size: 1 })
    );
    assert_eq!(
        Single.reduce_scatter(&[0.0; 2], &mut [0.0]),
        Err(Error::BufferLength { operation: "reduce_scatter", whole: 2, part: 1, size: 1 })
    );
}
