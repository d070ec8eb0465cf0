//! The group of one process.

use candle_core::{DType, Device, Tensor};
use spag_dist::{
    Collective, Error, ProcessGroup, Single, Traffic, agree, broadcast_text, gather_numbers, gather_texts,
};

#[test]
fn collectives_leave_the_buffer_unchanged() {
    let buffer = Tensor::new(&[1f32, 2.0, 3.0], &Device::Cpu).unwrap();
    Single.all_reduce(&buffer).unwrap();
    Single.reduce_scatter(&buffer).unwrap();
    Single.all_gather(&buffer).unwrap();
    Single.broadcast(&buffer, 0).unwrap();
    Single.barrier().unwrap();
    Single.start(Collective::AllReduce(buffer.clone())).unwrap().wait().unwrap();
    assert_eq!(buffer.to_vec1::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!((Single.rank(), Single.size(), Single.traffic()), (0, 1, Traffic::default()));
}

#[test]
fn exchange_returns_the_own_values() {
    assert_eq!(gather_numbers(&Single, &[1.5, 2.0]).unwrap(), [[1.5, 2.0]]);
    assert_eq!(gather_texts(&Single, "größer").unwrap(), ["größer"]);
    assert_eq!(broadcast_text(&Single, "").unwrap(), "");
    agree(&Single, &[("version", "1".into())]).unwrap();
}

#[test]
fn check_rejects_invalid_buffers_and_roots() {
    let rejected = |collective: Collective, size, words: &str| {
        let message = collective.check(size).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    };
    let flat = Tensor::zeros(7, DType::F32, &Device::Cpu).unwrap();
    let square = Tensor::zeros((2, 2), DType::F32, &Device::Cpu).unwrap();
    let text = Tensor::zeros(8, DType::U8, &Device::Cpu).unwrap();
    rejected(Collective::AllReduce(square), 1, "all_reduce: a flat buffer is needed, not one of shape [2, 2]");
    rejected(Collective::ReduceScatter(flat.clone()), 2, "7 elements are not 2 parts of equal length");
    rejected(Collective::AllGather(flat.clone()), 3, "all_gather");
    rejected(Collective::AllReduce(text.clone()), 2, "numbers of type u8 are not summed");
    Collective::AllGather(text).check(2).unwrap();
    Collective::AllReduce(flat.clone()).check(2).unwrap();
    assert_eq!(Single.broadcast(&flat, 1), Err(Error::NoSuchRank { operation: "broadcast", rank: 1, size: 1 }));
}
