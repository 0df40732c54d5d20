-- joins, subqueries, windows, set operations
SELECT r_name, count(*) FROM region JOIN nation ON r_regionkey = n_regionkey GROUP BY r_name ORDER BY r_name;
SELECT n_name, count(s_suppkey) FROM nation LEFT JOIN supplier ON n_nationkey = s_nationkey AND s_acctbal > 9000 GROUP BY n_name HAVING count(s_suppkey) <> 1 ORDER BY n_name;
SELECT count(*) FROM orders WHERE EXISTS (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey AND l_quantity = 50);
SELECT count(*) FROM customer WHERE c_custkey NOT IN (SELECT o_custkey FROM orders);
SELECT o_orderkey FROM orders WHERE o_totalprice = (SELECT max(o_totalprice) FROM orders);
WITH big AS (SELECT l_orderkey, sum(l_quantity) AS q FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 280) SELECT count(*), max(q) FROM big JOIN orders ON l_orderkey = o_orderkey;
SELECT n_name, rank() OVER (PARTITION BY n_regionkey ORDER BY n_name) AS r FROM nation WHERE n_regionkey = 2 ORDER BY n_name;
SELECT o_orderkey, sum(o_totalprice) OVER (ORDER BY o_orderkey ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM orders WHERE o_orderkey < 40 ORDER BY o_orderkey;
SELECT r_name FROM region UNION SELECT n_name FROM nation WHERE n_nationkey < 3;
SELECT r_regionkey FROM region EXCEPT SELECT n_regionkey FROM nation WHERE n_nationkey < 5;
SELECT n_regionkey FROM nation INTERSECT SELECT r_regionkey FROM region WHERE r_regionkey > 2;
SELECT a.n_name, b.n_name FROM nation a CROSS JOIN nation b WHERE a.n_nationkey = 1 AND b.n_nationkey > 22 ORDER BY b.n_name;
SELECT count(*) FROM lineitem d JOIN lineitem_iceberg i ON d.l_orderkey = i.l_orderkey AND d.l_linenumber = i.l_linenumber AND d.l_extendedprice = i.l_extendedprice AND d.l_comment = i.l_comment;
-- identifiers match without case when the match is unique, strings do not
SELECT N_NAME FROM NATION WHERE N_NationKey = 3;
SELECT count(*) FROM nation WHERE n_name = 'canada';
-- text and number functions
SELECT upper(substr(n_name, 1, 3)), length(n_name), lower(n_name) FROM nation WHERE n_nationkey < 2 ORDER BY n_nationkey;
SELECT coalesce(NULL, 'x'), nullif(1, 1), 7 % 3, abs(-4), round(2.567, 1);
SELECT 1.1 + 2.2, 0.1 * 3, 10.0 - 9.9;
SELECT CAST('1994-02-28' AS DATE) + INTERVAL '1' DAY > DATE '1994-02-28', DATE '1996-02-29' < DATE '1996-03-01';
SELECT 9223372036854775807 AS big, CAST('12.50' AS DECIMAL(10, 2)) AS money
