//! Writing of small Avro files for tests.

use std::io::Write;

const SYNC: [u8; 16] = *b"sixteen sync 16b";

/// A zigzag variable-length integer.
pub(in crate::iceberg) fn long(value: i64) -> Vec<u8> {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let mut bytes = Vec::new();
    while rest >= 0x80 {
        bytes.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    bytes.push(u8::try_from(rest).unwrap());
    bytes
}

/// Bytes or a string.
pub(in crate::iceberg) fn bytes(value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [long(i64::try_from(value.len()).unwrap()), value.to_vec()].concat()
}

/// A container of `blocks`, each of which holds encoded records.
pub(in crate::iceberg) fn container(schema: &str, codec: &str, blocks: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut file = b"Obj\x01".to_vec();
    file.extend(long(2));
    for (key, value) in [("avro.schema", schema), ("avro.codec", codec)] {
        file.extend([bytes(key), bytes(value)].concat());
    }
    file.extend(long(0));
    file.extend(SYNC);
    for block in blocks {
        let data = compress(codec, &block.concat());
        file.extend([long(i64::try_from(block.len()).unwrap()), bytes(data), SYNC.to_vec()].concat());
    }
    file
}

fn compress(codec: &str, data: &[u8]) -> Vec<u8> {
    match codec {
        "deflate" => {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        "snappy" => {
            let block = snap::raw::Encoder::new().compress_vec(data).unwrap();
            [block, crc32fast::hash(data).to_be_bytes().to_vec()].concat()
        }
        "zstandard" => zstd::encode_all(data, 1).unwrap(),
        _ => data.to_vec(),
    }
}
