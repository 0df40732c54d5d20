//! lakeserve
